// Bun brings an undici of its own, which Jest takes for a module of Node's; what @kubernetes/client-node imports of it is never called.
module.exports = { fetch };
