/** What standard input is called in findings; a list from there has no folder of further plugins beside it. */
export const STANDARD_INPUT = "/dev/stdin";
