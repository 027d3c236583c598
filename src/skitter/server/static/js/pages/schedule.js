import { Page } from "../page.js";
export class SchedulePage extends Page {
  build() { return []; }
}
