import { describeLocalSuite } from "./suite.ts";

describeLocalSuite("main");
