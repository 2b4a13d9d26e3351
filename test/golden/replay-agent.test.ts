import { describeAgentSuite } from "./suite.ts";

describeAgentSuite("main");
