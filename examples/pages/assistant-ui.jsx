// assistant-ui with its runtime for AG-UI: history comes from the server, and edits and reloads go there.
import {
  ActionBarPrimitive, AssistantRuntimeProvider, ComposerPrimitive, ExportedMessageRepository, MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import { fromAgUiMessages, useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses } from
  "@assistant-ui/react-ag-ui";
import { createRoot } from "react-dom/client";
import { agent } from "./agent.js";

const history = {
  async load() {
    await agent.connectAgent();
    const messages = fromAgUiMessages(agent.messages);
    const interrupts = agent.pendingInterrupts;
    if (interrupts.length) {
      // What waits is shown with the last answer.
      const last = messages.findLast(({ role }) => role === "assistant");
      last.status = { type: "requires-action", reason: "interrupt" };
      last.metadata = { ...last.metadata, custom: { ...last.metadata?.custom, agui: { interrupts } } };
    }
    return ExportedMessageRepository.fromArray(messages);
  },
  async append() {}, // the server stores what it runs
};

function Questions() {
  const interrupts = useAgUiInterrupts();
  const submit = useAgUiSubmitInterruptResponses();
  const answer = (approved) =>
    submit(interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: { approved } })));
  return interrupts.map(({ id, message }) => (
    <p role="alert" style={{ whiteSpace: "pre-line" }} key={id}>
      {message} <button onClick={() => answer(true)}>Approve</button> <button onClick={() => answer(false)}>Deny</button>
    </p>
  ));
}

const Question = () => (
  <MessagePrimitive.Root data-role="user">
    <MessagePrimitive.Parts /> <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
  </MessagePrimitive.Root>
);
const EditedQuestion = () => (
  <ComposerPrimitive.Root>
    <ComposerPrimitive.Input aria-label="Edit" /> <ComposerPrimitive.Send>Update</ComposerPrimitive.Send>
  </ComposerPrimitive.Root>
);
const Answer = () => (
  <MessagePrimitive.Root data-role="assistant">
    <MessagePrimitive.Parts /> <ActionBarPrimitive.Reload>Regenerate</ActionBarPrimitive.Reload>
  </MessagePrimitive.Root>
);

function Page() {
  const runtime = useAgUiRuntime({ agent, adapters: { history } });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Messages
          components={{ UserMessage: Question, UserEditComposer: EditedQuestion, AssistantMessage: Answer }} />
        <Questions />
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Ask" autoFocus /> <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("page")).render(<Page />);
