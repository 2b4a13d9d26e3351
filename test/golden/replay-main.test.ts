import { describeSuite } from "./suite.ts";

describeSuite("main");
