import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { inLanguage, newPage, visit } from "./browser.mjs";

const variants = [
  { name: "wide", viewport: { width: 1280, height: 900 }, colorScheme: "light", lang: "en" },
  { name: "wide-dark", viewport: { width: 1280, height: 900 }, colorScheme: "dark", lang: "en" },
  { name: "narrow", viewport: { width: 320, height: 700 }, colorScheme: "light", lang: "en" },
  { name: "wide-ar", viewport: { width: 1280, height: 900 }, colorScheme: "light", lang: "ar" },
  { name: "narrow-ar-dark", viewport: { width: 320, height: 700 }, colorScheme: "dark", lang: "ar" },
];

export async function takeScreenshots(browser, plan, folder) {
  for (const { name, lang, ...options } of variants) {
    const { context, page } = await newPage(browser, options);
    for (const one of plan.pages) {
      await visit(page, one, inLanguage(one.url, lang));
      await page.screenshot({ path: fileURLToPath(new URL(`${one.name}-${name}.png`, folder)), fullPage: true });
    }
    await context.close();
  }
  // The most visited pages, in the languages that are not in variants.
  const { context, page } = await newPage(browser, { viewport: { width: 900, height: 900 } });
  for (const one of plan.pages.filter((p) => ["lookup", "valid"].includes(p.name))) {
    for (const lang of ["es", "fr", "de", "pt", "hi", "zh"]) {
      await page.goto(inLanguage(one.url, lang), { waitUntil: "load" });
      await page.screenshot({ path: fileURLToPath(new URL(`${one.name}-${lang}.png`, folder)), fullPage: true });
    }
  }
  // Two certificates in print, and their pictures for link previews.
  for (const one of plan.pages.filter((p) => ["valid", "revoked"].includes(p.name))) {
    await page.goto(one.url, { waitUntil: "load" });
    await page.pdf({ path: fileURLToPath(new URL(`${one.name}-print.pdf`, folder)), format: "A4" });
    await page.goto(`${one.url}/card.png`);
    await page.setViewportSize({ width: 1200, height: 630 });
    await page.screenshot({ path: fileURLToPath(new URL(`${one.name}-card.png`, folder)) });
    await page.setViewportSize({ width: 900, height: 900 });
  }
  await context.close();
}

// The pictures for the README. Each shows the top of a page.
const pictures = [
  { page: "certificates", file: "panel.png" },
  { page: "valid", file: "verification.png" },
];

// The maximum total size in bytes of the pictures for the README.
const maxPictures = 300_000;

// The pictures for the help. They are JPEG files, which are small, because the binary embeds them.
const helpPictures = [
  { page: "upload-details", file: "upload.jpg" },
  { page: "bulk-rows", file: "bulk.jpg" },
  { page: "designer", file: "designer.jpg" },
  { page: "mail-link", file: "recipient.jpg" },
  { page: "valid", file: "verify.jpg" },
];
// The maximum total size in bytes of the pictures for the help.
const maxHelpPictures = 600_000;

export async function takePictures(browser, plan, folder, helpFolder) {
  return [
    ...(await take(browser, plan, folder, pictures, { width: 1200, height: 900 }, {}, maxPictures)),
    ...(await take(browser, plan, helpFolder, helpPictures, { width: 1200, height: 820 }, { type: "jpeg", quality: 65 }, maxHelpPictures)),
  ];
}

// take takes pictures of pages in English, and returns a fault if their total size exceeds limit.
async function take(browser, plan, folder, list, viewport, format, limit) {
  await mkdir(folder, { recursive: true });
  const { context, page } = await newPage(browser, { viewport, colorScheme: "light" });
  let size = 0;
  for (const { page: name, file } of list) {
    const one = plan.pages.find((p) => p.name === name);
    await visit(page, one, inLanguage(one.url, "en"));
    // The banners say that the vault is a test vault or has no mail server.
    await page.evaluate(() => document.querySelectorAll(".test-vault, .test-note, .no-mail").forEach((banner) => banner.remove()));
    // Scripts of the panel draw previews after the page has loaded.
    await page.waitForLoadState("networkidle");
    await page.evaluate(loadImages);
    const picture = await page.screenshot({ path: fileURLToPath(new URL(file, folder)), ...format });
    size += picture.length;
  }
  await context.close();
  return size > limit ? [`the pictures have ${size} bytes, more than ${limit}`] : [];
}

// loadImages waits until all images are loaded, also those below the visible part of the page. It runs in
// the browser.
function loadImages() {
  return Promise.all([...document.images].map((image) => {
    image.loading = "eager";
    return image.decode();
  }));
}
