import { describeEtcdSuite } from "../../golden/suite.ts";

describeEtcdSuite("main");
