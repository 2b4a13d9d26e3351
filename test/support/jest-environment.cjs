// Jest prints the stack of a failed test and expects the message in it, as V8 has it; JavaScriptCore's stacks have no message.
const { TestEnvironment } = require("jest-environment-node");

module.exports = class extends TestEnvironment {
  handleTestEvent(event) {
    if (event.name !== "test_fn_failure" && event.name !== "hook_failure") return;
    const { error } = event;
    if (error === null || typeof error !== "object" || typeof error.stack !== "string" || error.stack.includes(error.message)) return;
    Object.defineProperty(error, "stack", { value: `${error.name}: ${error.message}\n${error.stack}`, configurable: true });
  }
};
