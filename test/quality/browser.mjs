import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

// Where Debian and others have Chromium; CHROMIUM says otherwise.
export const chromiumPath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
  .find((path) => path && existsSync(path));

// The vault's certificate is of its own making, and a container has no room for
// the sandbox and little shared memory.
export const flags = ["--no-sandbox", "--disable-dev-shm-usage", "--ignore-certificate-errors"];

export async function launch(more = []) {
  if (!chromiumPath) throw new Error("there is no Chromium on this machine");
  return chromium.launch({ executablePath: chromiumPath, args: [...flags, ...more] });
}

// pagesIn opens pages and collects what the browser complains of: refused
// scripts, failed requests, requests to another host.
export async function newPage(browser, options) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
  const page = await context.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`script: ${error.message}`));
  page.on("console", (message) => {
    // A page that answers 404 is one of the states.
    if (message.type() === "error" && !message.text().includes("status of 404")) complaints.push(`console: ${message.text()}`);
  });
  const hosts = new Set();
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
  return { context, page, complaints, hosts };
}

// visit goes to a page as whom it is for.
export async function visit(page, one, url) {
  await page.context().clearCookies();
  if (one.session) {
    await page.context().addCookies([{ name: "__Host-session", value: one.session, domain: new URL(url).hostname, path: "/", secure: true, httpOnly: true, sameSite: "Lax" }]);
  }
  return page.goto(url, { waitUntil: "load" });
}

export function inLanguage(url, lang) {
  const address = new URL(url);
  address.searchParams.set("lang", lang);
  return address.href;
}
