import { Page } from "../page.js";
export class SettingsPage extends Page {
  build() { return []; }
}
