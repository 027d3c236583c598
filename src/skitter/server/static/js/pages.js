/** Which page an address names. */

import { ChartsPage } from "./pages/charts.js";
import { DeadPage } from "./pages/dead.js";
import { HostsPage } from "./pages/hosts.js";
import { ItemsPage } from "./pages/items.js";
import { JobsPage } from "./pages/jobs.js";
import { LogPage } from "./pages/log.js";
import { MissingPage } from "./pages/missing.js";
import { OverviewPage } from "./pages/overview.js";
import { PipelinePage } from "./pages/pipeline.js";
import { RoutesPage } from "./pages/routes.js";
import { RunsPage } from "./pages/runs.js";
import { SchedulePage } from "./pages/schedule.js";
import { SettingsPage } from "./pages/settings.js";
import { UrlPage } from "./pages/url.js";
import { WorkersPage } from "./pages/workers.js";

export const PAGES = {
    jobs: JobsPage,
    overview: OverviewPage,
    pipeline: PipelinePage,
    charts: ChartsPage,
    hosts: HostsPage,
    workers: WorkersPage,
    dead: DeadPage,
    items: ItemsPage,
    url: UrlPage,
    log: LogPage,
    settings: SettingsPage,
    schedule: SchedulePage,
    routes: RoutesPage,
    runs: RunsPage,
    missing: MissingPage,
};

for (const [name, page] of Object.entries(PAGES)) customElements.define(`${name}-page`, page);
