// A client on the AI SDK without React: sends what a plan says, and prints what it has on its screen in the end.
//
//   node ai_sdk.mjs API PLAN
//
// A step of the plan is {say: text}, {answer: {TOOL: approved}} or {give: {TOOL: output}}. With {reconnect: true} the
// response is left after its first text, and picked up again.
import { DefaultChatTransport, readUIMessageStream, isToolUIPart, getToolName } from 'ai';

const [api, plan] = process.argv.slice(2);
const chatId = crypto.randomUUID();
const transport = new DefaultChatTransport({ api });
const messages = [];
const seen = { states: {}, errors: [], chunks: 0 };

function note(message) {
  for (const part of message.parts.filter(isToolUIPart)) {
    const states = (seen.states[getToolName(part)] ??= []);
    const state = part.preliminary ? `${part.state} ${JSON.stringify(part.output)}` : part.state;
    if (states.at(-1) !== state) states.push(state);
  }
}

async function read(stream, before, until = () => false) {
  const counted = stream.pipeThrough(
    new TransformStream({ transform(chunk, out) { seen.chunks += 1; out.enqueue(chunk); } }),
  );
  const said = readUIMessageStream({ message: before, stream: counted, onError: error => seen.errors.push(String(error)) });
  let last = before;
  for await (const message of said) {
    last = message;
    note(message);
    if (until(message)) break;
  }
  return last;
}

async function send() {
  const before = messages.at(-1).role === 'assistant' ? messages.pop() : undefined;
  const sent = before === undefined ? messages : [...messages, before];
  const abort = new AbortController();
  const stream = await transport.sendMessages({
    chatId, messages: structuredClone(sent), trigger: 'submit-message', abortSignal: abort.signal,
  });
  return { stream, before, abort };
}

function change(tool, how) {
  for (const part of messages.at(-1).parts.filter(isToolUIPart)) {
    if (getToolName(part) === tool) Object.assign(part, how(part));
  }
}

for (const step of JSON.parse(plan)) {
  if (step.say !== undefined) {
    messages.push({ id: crypto.randomUUID(), role: 'user', parts: [{ type: 'text', text: step.say }] });
  }
  for (const [tool, approved] of Object.entries(step.answer ?? {})) {
    change(tool, part => ({ state: 'approval-responded', approval: { ...part.approval, approved } }));
  }
  for (const [tool, output] of Object.entries(step.give ?? {})) {
    change(tool, () => ({ state: 'output-available', output }));
  }
  const { stream, before, abort } = await send();
  if (step.reconnect) {
    await read(stream, before, message => message.parts.some(part => part.type === 'text' && part.text));
    abort.abort();
    const again = await transport.reconnectToStream({ chatId });
    messages.push(await read(again, undefined));
    seen.afterwards = await transport.reconnectToStream({ chatId });
  } else {
    messages.push(await read(stream, before));
  }
}
console.log(JSON.stringify({ ...seen, messages }));
