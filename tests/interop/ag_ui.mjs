// An AG-UI front end on @ag-ui/client: runs the steps of a plan one after the other, and prints what it has after each.
//
//     node ag_ui.mjs URL PLAN     PLAN: JSON, a list of steps
//     node ag_ui.mjs - FILE       FILE: JSON, a list of bodies, each read as the answer to one run
//
// A step: say (a message of the person), tools (that it offers), answers (content by the name of a tool), approve (the
// payload for each interrupt; a list: one for each), stopAt (abort at the first event of this type), props.
import { readFileSync } from "node:fs";
import { HttpAgent, buildResumeArray } from "@ag-ui/client";

const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = (...words) => warnings.push(words.join(" "));

let ids = 0;

function answer(agent, answers) {
  const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
  for (const call of calls) {
    if (call.function.name in answers && !agent.messages.some((message) => message.toolCallId === call.id)) {
      const content = answers[call.function.name];
      agent.addMessage({ id: `said-${ids++}`, role: "tool", toolCallId: call.id, content });
    }
  }
}

function resumeOf(agent, approve) {
  const payloads = Array.isArray(approve) ? approve : agent.pendingInterrupts.map(() => approve);
  const responses = agent.pendingInterrupts.map((interrupt, place) =>
    payloads[place] === "cancelled"
      ? [interrupt.id, { status: "cancelled" }]
      : [interrupt.id, { status: "resolved", payload: payloads[place] }],
  );
  return buildResumeArray(agent.pendingInterrupts, Object.fromEntries(responses));
}

async function run(agent, step) {
  const seen = { events: [], customs: [], subagents: [], failed: null, error: null, finished: null, interrupts: null };
  let stopped = false;
  if (step.say !== undefined) agent.addMessage({ id: `said-${ids++}`, role: "user", content: step.say });
  if (step.answers !== undefined) answer(agent, step.answers);
  const parameters = { tools: step.tools ?? [], forwardedProps: step.props ?? {} };
  if (step.approve !== undefined) parameters.resume = resumeOf(agent, step.approve);
  try {
    await agent.runAgent(parameters, {
      onEvent({ event }) {
        seen.events.push(event.type);
        if (event.type === step.stopAt && !stopped) {
          stopped = true;
          agent.abortRun();
        }
      },
      onCustomEvent: ({ event }) => void seen.customs.push(event),
      onSubagentStartedEvent: ({ event }) => void seen.subagents.push(event),
      onSubagentErrorEvent: ({ event }) => void seen.subagents.push(event),
      onRunErrorEvent: ({ event }) => void (seen.error = event),
      onRunFinishedEvent({ event, outcome, interrupts, pendingToolCallIds, result }) {
        seen.finished = { outcome, pendingToolCallIds, result, usage: event.usage };
        seen.interrupts = interrupts ?? null;
      },
      onRunFailed: ({ error }) => void (seen.failed = String(error)),
    });
  } catch (error) {
    seen.failed ??= String(error);
  }
  return { ...seen, messages: structuredClone(agent.messages), warnings: warnings.splice(0) };
}

async function readBody(body) {
  const bytes = Buffer.from(body, "base64");
  const fetch = async () => new Response(bytes, { headers: { "content-type": "text/event-stream" } });
  const agent = new HttpAgent({ url: "http://nowhere", threadId: "t", fetch });
  return run(agent, { say: "go" });
}

const [url, given] = process.argv.slice(2);
const results = [];
if (url === "-") {
  for (const body of JSON.parse(readFileSync(given, "utf8"))) results.push(await readBody(body));
} else {
  const agent = new HttpAgent({ url, threadId: "thread-1" });
  for (const step of JSON.parse(given)) results.push(await run(agent, step));
}
process.stdout.write(JSON.stringify(results));
