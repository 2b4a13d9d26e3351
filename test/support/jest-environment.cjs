// Jest prints the stack of a failed test and expects the message in it, as V8 has it; JavaScriptCore's stacks have no message.
const { TestEnvironment } = require("jest-environment-node");

/** What of an error is to be read: of one that came while a test that had failed was cleaned up, the failure and then what came. */
function wordsOf(error) {
  if (error === null || typeof error !== "object" || typeof error.stack !== "string") return String(error);
  if (error.name === "SuppressedError") return `${wordsOf(error.suppressed)}\n\nand, when it was cleaned up:\n${wordsOf(error.error)}`;
  return error.stack.includes(error.message) ? error.stack : `${error.name}: ${error.message}\n${error.stack}`;
}

module.exports = class extends TestEnvironment {
  handleTestEvent(event) {
    if (event.name !== "test_fn_failure" && event.name !== "hook_failure") return;
    const { error } = event;
    if (error === null || typeof error !== "object" || typeof error.stack !== "string") return;
    const words = wordsOf(error);
    if (words !== error.stack) Object.defineProperty(error, "stack", { value: words, configurable: true });
  }
};
