// CopilotKit without its runtime of Node: the agent speaks AG-UI itself.
import {
  a2uiDefaultTheme, CopilotChat, CopilotKitProvider, createA2UIMessageRenderer, useCopilotKit, useDefaultRenderTool, useInterrupt,
} from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { createRoot } from "react-dom/client";
import { agent, threadId } from "./agent.js";
import { Approval, Problem, ToolCall } from "./problem.jsx";
import "./problem.css";

function Chat() {
  const { copilotkit } = useCopilotKit();
  useInterrupt({ render: ({ interrupt, resolve }) => <Approval interrupt={interrupt} answer={resolve} /> });
  useDefaultRenderTool({ render: ({ toolCallId, name, parameters, result }) =>
    <ToolCall id={toolCallId} name={name} args={parameters} result={result} /> });
  // The messages up to the question are posted, and the thread goes back to it.
  const answerAgain = (end, ...edited) => {
    agent.setMessages([...agent.messages.slice(0, end), ...edited]);
    return copilotkit.runAgent({ agent });
  };
  const lastQuestion = (end) => agent.messages.slice(0, end).findLastIndex(({ role }) => role === "user");
  const onRegenerate = (message) =>
    answerAgain(lastQuestion(agent.messages.findIndex(({ id }) => id === message.id)) + 1);
  const onEditMessage = ({ message }) => {
    const content = prompt("Edit", message.content);
    // It keeps its id, by which the server knows it as an edit, also if it is the first one.
    return content && answerAgain(agent.messages.findIndex(({ id }) => id === message.id), { ...message, content });
  };
  agent.refresh = () => copilotkit.connectAgent({ agent });
  // What others did meanwhile comes first; a question that the server has not taken is asked behind it.
  agent.again = async ({ messages, resume }) => {
    await agent.refresh();
    if (resume) return;
    const asked = messages.findLast(({ role }) => role === "user");
    if (agent.messages.some(({ id }) => id === asked.id)) return answerAgain(lastQuestion() + 1);
    agent.addMessage(asked);
    return copilotkit.runAgent({ agent });
  };
  return (
    <>
      <CopilotChat agentId="default" threadId={threadId}
        messageView={{ assistantMessage: { onRegenerate }, userMessage: { onEditMessage } }} />
      <div className="below"><Problem /></div>
    </>
  );
}

// Without its runtime, forms that the agent sends are drawn by what is named here.
const renderers = [createA2UIMessageRenderer({ theme: a2uiDefaultTheme })];

createRoot(document.getElementById("page")).render(
  <CopilotKitProvider selfManagedAgents={{ default: agent }} renderActivityMessages={renderers}><Chat /></CopilotKitProvider>);
