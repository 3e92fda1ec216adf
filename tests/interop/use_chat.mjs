// A React app on `useChat`, in jsdom: does what a plan says, and prints what it has on its screen in the end.
//
//   node use_chat.mjs API PLAN
//
// A step of the plan is {say: text}, {answer: {TOOL: approved}}, {give: {TOOL: output}} or {again: true}, which sends
// what is there once more. With {stop: text} the button is pressed when this text is there; with {resume: true} behind
// it, the answer is then picked up again. Each step ends when the app is idle, after as many `responses`. {auto: {TOOL:
// output}} in the first step answers calls of a tool as soon as they are there.
import { JSDOM } from 'jsdom';

const dom = new JSDOM('<main></main>', { url: 'http://127.0.0.1/' });
Object.assign(globalThis, { window: dom.window, document: dom.window.document, IS_REACT_ACT_ENVIRONMENT: false });
Object.defineProperty(globalThis, 'navigator', { value: dom.window.navigator, configurable: true });

const { createElement, useEffect, useState } = await import('react');
const { createRoot } = await import('react-dom/client');
const { useChat } = await import('@ai-sdk/react');
const {
  DefaultChatTransport, getToolName, isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls,
} = await import('ai');

const [api, planText] = process.argv.slice(2);
const plan = JSON.parse(planText);
const auto = plan[0].auto ?? {};
const seen = { errors: [], data: [], finished: [] };
let chat, finished; // as drawn last: what has come since then is not there yet
let waiting = [];

function App() {
  const [count, setCount] = useState(0);
  finished = count;
  chat = useChat({
    transport: new DefaultChatTransport({ api }),
    sendAutomaticallyWhen: options =>
      lastAssistantMessageIsCompleteWithApprovalResponses(options) || lastAssistantMessageIsCompleteWithToolCalls(options),
    onError: error => seen.errors.push(error.message),
    onData: part => seen.data.push(part),
    onFinish: ({ isAbort, isError, finishReason }) => {
      seen.finished.push({ isAbort, isError, finishReason });
      setCount(seen.finished.length);
    },
    onToolCall: ({ toolCall }) => {
      if (toolCall.dynamic) return; // as the documentation has it, for the sake of types
      if (toolCall.toolName in auto) {
        chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output: auto[toolCall.toolName] });
      }
    },
  });
  useEffect(lookAgain);
  return createElement('p', null, chat.status);
}

function lookAgain() {
  waiting = waiting.filter(look => !look());
}

function until(holds) {
  return new Promise(resolve => {
    const look = () => holds() && (resolve(), true);
    if (!look()) waiting.push(look);
  });
}

const answer = () => (chat.messages.at(-1)?.role === 'assistant' ? chat.messages.at(-1) : undefined);
const parts = () => answer()?.parts ?? [];
const calls = tool => parts().filter(part => isToolUIPart(part) && getToolName(part) === tool);
const idle = () => ['ready', 'error'].includes(chat.status) && answer() !== undefined;

createRoot(document.querySelector('main')).render(createElement(App));
await until(() => chat !== undefined);

for (const step of plan) {
  const before = seen.finished.length;
  if (step.say !== undefined) void chat.sendMessage({ text: step.say });
  if (step.again) void chat.sendMessage();
  for (const [tool, approved] of Object.entries(step.answer ?? {})) {
    for (const part of calls(tool)) void chat.addToolApprovalResponse({ id: part.approval.id, approved });
  }
  for (const [tool, output] of Object.entries(step.give ?? {})) {
    for (const part of calls(tool)) void chat.addToolOutput({ tool, toolCallId: part.toolCallId, output });
  }
  if (step.stop) {
    await until(() => parts().some(part => part.type === 'text' && part.text.includes(step.stop)));
    await chat.stop();
  }
  if (step.resume) void chat.resumeStream();
  const responses = step.responses ?? 1;
  await until(() => finished >= before + responses && idle());
}
console.log(JSON.stringify({ ...seen, status: chat.status, messages: chat.messages }));
process.exit(0);
