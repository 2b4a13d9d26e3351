/** Tells the compiler what Bun makes of a file of text that is imported. */
declare module "*.txt" {
  const text: string;
  export default text;
}
