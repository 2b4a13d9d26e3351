import { describeLocalSuite } from "./suite.ts";

describeLocalSuite("ipam-kdd");
describeLocalSuite("ipam-etcd");
