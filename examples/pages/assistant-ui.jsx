// assistant-ui with its runtime for AG-UI: history comes from the server, and edits and reloads go there.
import {
  ActionBarPrimitive, AssistantRuntimeProvider, ComposerPrimitive, ExportedMessageRepository, MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import { fromAgUiMessages, useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses } from
  "@assistant-ui/react-ag-ui";
import "@assistant-ui/styles/index.css";
import { useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import { agent } from "./agent.js";
import { Approval, Problem, ToolCall } from "./problem.jsx";
import "./problem.css";

const lastQuestion = (messages) => messages.findLastIndex(({ role }) => role === "user");

/** The thread of the server, with the run that is in progress in it; `loaded` is called behind it, `again` to load it anew. */
class History {
  constructor(loaded, again) {
    Object.assign(this, { loaded, again });
  }

  async load() {
    // A run that is in progress sends the thread, and then nothing for a while, or what it does.
    const isGoingOn = new Promise((resolve) => {
      const { unsubscribe } = agent.subscribe({ onMessagesSnapshotEvent() { unsubscribe(); setTimeout(resolve, 300, true); } });
    });
    this.connected = agent.connectAgent().catch(() => {}).then(() => false);
    const unstable_resume = await Promise.race([this.connected, isGoingOn]);
    const shown = unstable_resume ? agent.messages.slice(0, lastQuestion(agent.messages) + 1) : agent.messages;
    const messages = fromAgUiMessages(shown);
    const interrupts = agent.pendingInterrupts;
    if (interrupts.length) {
      // What waits is shown with the last answer.
      const last = messages.findLast(({ role }) => role === "assistant");
      last.status = { type: "requires-action", reason: "interrupt" };
      last.metadata = { ...last.metadata, custom: { ...last.metadata?.custom, agui: { interrupts } } };
    }
    if (!unstable_resume) setTimeout(this.loaded);
    return { ...ExportedMessageRepository.fromArray(messages), unstable_resume };
  }

  async *resume() {
    let [wake, isOver] = [() => {}, false];
    const { unsubscribe } = agent.subscribe({ onMessagesChanged: () => wake() });
    this.connected.then(() => { isOver = true; wake(); });
    while (!isOver) {
      const answer = agent.messages.slice(lastQuestion(agent.messages) + 1);
      yield { content: fromAgUiMessages(answer).flatMap(({ content }) => content) };
      await new Promise((resolve) => { wake = resolve; });
    }
    unsubscribe();
    // What was shown meanwhile has no ids that the server knows.
    this.again();
  }

  async append() {} // the server stores what it runs
}

function Questions() {
  const interrupts = useAgUiInterrupts();
  const submit = useAgUiSubmitInterruptResponses();
  const answers = useMemo(() => new Map(), [interrupts]);
  const answer = (interruptId, payload) => {
    answers.set(interruptId, { interruptId, status: "resolved", payload });
    if (answers.size === interrupts.length) submit([...answers.values()]);
  };
  return interrupts.map((each) => <Approval key={each.id} interrupt={each} answer={(payload) => answer(each.id, payload)} />);
}

const tools = { Fallback: ({ toolCallId, toolName, args, result }) =>
  <ToolCall id={toolCallId} name={toolName} args={args} result={result} /> };
const Question = () => (
  <MessagePrimitive.Root data-role="user" className="aui-user-message-root">
    <div className="aui-user-message-content"><MessagePrimitive.Parts /></div>
    <ActionBarPrimitive.Edit className="action">Edit</ActionBarPrimitive.Edit>
  </MessagePrimitive.Root>
);
const EditedQuestion = () => (
  <div className="aui-edit-composer-wrapper">
    <ComposerPrimitive.Root className="aui-edit-composer-root">
      <ComposerPrimitive.Input aria-label="Edit" className="aui-edit-composer-input" />
      <ComposerPrimitive.Send className="action">Update</ComposerPrimitive.Send>
    </ComposerPrimitive.Root>
  </div>
);
const Answer = () => (
  <MessagePrimitive.Root data-role="assistant" className="aui-assistant-message-root">
    <div className="aui-assistant-message-content"><MessagePrimitive.Parts components={{ tools }} /></div>
    <ActionBarPrimitive.Reload className="action">Regenerate</ActionBarPrimitive.Reload>
  </MessagePrimitive.Root>
);

function Page({ input, reload }) {
  // What was refused, or failed, is asked again once the thread is there as the server has it.
  const askAgain = async () => {
    const asked = input?.messages[lastQuestion(input.messages)];
    if (!asked || input.resume) return;
    while (runtime.thread.getState().isLoading) await new Promise((resolve) => setTimeout(resolve, 50));
    if (agent.messages.some(({ id }) => id === asked.id)) runtime.thread.startRun({ parentId: asked.id });
    else runtime.thread.append(asked.content);
  };
  const history = useMemo(() => new History(askAgain, () => reload(input)), []);
  const runtime = useAgUiRuntime({ agent, adapters: { history } });
  agent.again = reload;
  agent.refresh = async () => {
    const before = agent.messages.at(-1)?.id;
    await agent.connectAgent();
    if (agent.messages.at(-1)?.id !== before) reload();
  };
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root className="aui-thread-root">
        <ThreadPrimitive.Viewport className="aui-thread-viewport">
          <ThreadPrimitive.Messages
            components={{ UserMessage: Question, UserEditComposer: EditedQuestion, AssistantMessage: Answer }} />
          <div className="aui-thread-viewport-footer">
            <Questions />
            <Problem />
            <ComposerPrimitive.Root className="aui-composer-root aui-composer-attachment-dropzone">
              <ComposerPrimitive.Input aria-label="Ask" placeholder="Ask" autoFocus className="aui-composer-input" />
              <ThreadPrimitive.If running={false}><ComposerPrimitive.Send className="action">Send</ComposerPrimitive.Send></ThreadPrimitive.If>
              <ThreadPrimitive.If running><ComposerPrimitive.Cancel className="action">Stop</ComposerPrimitive.Cancel></ThreadPrimitive.If>
            </ComposerPrimitive.Root>
          </div>
        </ThreadPrimitive.Viewport>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

function App() {
  const [{ number, input }, setShown] = useState({ number: 0 });
  return <Page key={number} input={input} reload={(again) => setShown((before) => ({ number: before.number + 1, input: again }))} />;
}

createRoot(document.getElementById("page")).render(<App />);
