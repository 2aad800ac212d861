// CopilotKit without its runtime of Node: the agent speaks AG-UI itself.
import { CopilotChat, CopilotKitProvider, useCopilotKit, useInterrupt } from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { createRoot } from "react-dom/client";
import { agent, threadId } from "./agent.js";

function Chat() {
  const { copilotkit } = useCopilotKit();
  useInterrupt({
    render: ({ interrupt, resolve }) => (
      <p role="alert" style={{ whiteSpace: "pre-line" }}>
        {interrupt.message} <button onClick={() => resolve({ approved: true })}>Approve</button>
        <button onClick={() => resolve({ approved: false })}>Deny</button>
      </p>
    ),
  });
  // The messages up to the question are posted, and the thread goes back to it.
  const answerAgain = (end, ...edited) => {
    agent.setMessages([...agent.messages.slice(0, end), ...edited]);
    return copilotkit.runAgent({ agent });
  };
  const onRegenerate = (message) =>
    answerAgain(agent.messages.slice(0, agent.messages.findIndex(({ id }) => id === message.id))
      .findLastIndex(({ role }) => role === "user") + 1);
  const onEditMessage = ({ message }) => {
    const content = prompt("Edit", message.content);
    // It keeps its id, by which the server knows it as an edit, also if it is the first one.
    return content && answerAgain(agent.messages.findIndex(({ id }) => id === message.id), { ...message, content });
  };
  return (
    <CopilotChat agentId="default" threadId={threadId}
      messageView={{ assistantMessage: { onRegenerate }, userMessage: { onEditMessage } }} />
  );
}

createRoot(document.getElementById("page")).render(
  <CopilotKitProvider selfManagedAgents={{ default: agent }}><Chat /></CopilotKitProvider>);
