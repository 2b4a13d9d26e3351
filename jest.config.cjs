// Jest runs on Bun (scripts/jest), so that tests reach bun:ffi and bun:sqlite; swc only strips the types.
module.exports = {
  transform: {
    "^.+\\.ts$": ["@swc/jest", { jsc: { parser: { syntax: "typescript" }, target: "es2022" }, module: { type: "commonjs" } }],
  },
  transformIgnorePatterns: ["/node_modules/(?!yargs/)"],
  moduleNameMapper: { "^undici$": "<rootDir>/test/support/undici.cjs" },
  testEnvironment: "<rootDir>/test/support/jest-environment.cjs",
  setupFiles: ["<rootDir>/test/support/jest-setup.cjs"],
  // Nothing is judged by time; this only ends what hangs, on a machine however slow.
  testTimeout: 300_000,
  // Inside a user namespace everybody is uid 0, and the default below /tmp would be that of the real root.
  cacheDirectory: "<rootDir>/.cache/jest",
  testMatch: ["<rootDir>/test/**/*.test.ts"],
  modulePathIgnorePatterns: ["<rootDir>/dist", "<rootDir>/.cache"],
};
