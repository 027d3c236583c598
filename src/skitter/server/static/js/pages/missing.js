/** The page for unknown addresses. */

import { icon } from "../icons.js";
import { empty, Page } from "../page.js";

export class MissingPage extends Page {
    build() {
        return empty(icon("url"), "There is no such page", "The pages of a job are in the menu.");
    }
}
