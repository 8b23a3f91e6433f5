import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

// chromiumPath is the path of Chromium: the first of these paths that exists, or undefined.
export const chromiumPath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
  .find((path) => path && existsSync(path));

// In a container, the sandbox does not work and shared memory is small. The TLS certificate of the vault
// is self-signed.
export const flags = ["--no-sandbox", "--disable-dev-shm-usage", "--ignore-certificate-errors"];

export async function launch(more = []) {
  if (!chromiumPath) throw new Error("Chromium is not installed");
  return chromium.launch({ executablePath: chromiumPath, args: [...flags, ...more] });
}

// newPage opens a page. It collects the browser's error messages, such as blocked scripts and failed
// requests, and the hosts of all requests.
export async function newPage(browser, options) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
  const page = await context.newPage();
  const messages = [];
  page.on("pageerror", (error) => messages.push(`script: ${error.message}`));
  page.on("console", (message) => {
    // The status 404 is the expected status of some pages.
    if (message.type() === "error" && !message.text().includes("status of 404")) messages.push(`console: ${message.text()}`);
  });
  const hosts = new Set();
  page.on("request", (request) => hosts.add(new URL(request.url()).host));
  return { context, page, messages, hosts };
}

// visit opens a page with its session, or submits the form whose response is the page. It returns
// the response to the first request. This response may be a redirect.
export async function visit(page, one, url) {
  await page.context().clearCookies();
  if (one.session) {
    await page.context().addCookies([{ name: "__Host-session", value: one.session, domain: new URL(url).hostname, path: "/", secure: true, httpOnly: true, sameSite: "Lax" }]);
  }
  // goto loads nothing, and returns null, if the URL differs from that of the open page only in its fragment.
  if (!one.form) return first(await page.goto(url, { waitUntil: "load" }) ?? await page.reload({ waitUntil: "load" }));
  await page.goto(new URL("/signatures", url).href, { waitUntil: "load" });
  const [response] = await Promise.all([
    page.waitForEvent("response", (r) => r.request().isNavigationRequest()),
    page.waitForEvent("load"),
    page.evaluate(send, { action: url, fields: one.form, multipart: one.multipart }),
  ]);
  return response;
}

// first returns the response to the first request of a navigation that may have been redirected.
async function first(response) {
  let request = response.request();
  while (request.redirectedFrom()) request = request.redirectedFrom();
  return request.response();
}

// send submits a form from the open page. It runs in the browser.
function send({ action, fields, multipart }) {
  const form = Object.assign(document.createElement("form"), { method: "post", action, enctype: multipart ? "multipart/form-data" : "" });
  for (const [name, values] of Object.entries(fields)) {
    for (const value of values) form.append(Object.assign(document.createElement("input"), { name, value }));
  }
  document.body.append(form);
  form.submit();
}

export function inLanguage(url, lang) {
  const address = new URL(url);
  address.searchParams.set("lang", lang);
  return address.href;
}
