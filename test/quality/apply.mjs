import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

const phone = { viewport: { width: 320, height: 640 }, isMobile: true, hasTouch: true };

// checkApplying applies for a certificate on a phone until it is issued. It also applies without JavaScript,
// and withdraws that application.
export async function checkApplying(step, plan) {
  const { apply } = plan;
  const { host, origin } = new URL(apply.offers);
  const fill = async (page) => {
    await page.getByLabel("Full name").fill("Noor Haddad");
    await page.getByLabel("Student number").fill("N 815");
    await page.getByLabel("Course").selectOption("Law");
    await page.getByLabel("Date of birth").fill("2001-02-03");
    await page.getByLabel("My answers are correct").check();
  };
  const narrow = async (page) => {
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(overflow, 0, `${page.url()} is ${overflow} pixels too wide`);
  };

  await step("a person applies on a phone, answers a question and gets the certificate", phone, async (page) => {
    await page.goto(`${apply.offers}?lang=en`);
    await page.getByRole("link", { name: apply.name }).tap();
    await page.getByRole("heading", { name: apply.name }).waitFor();
    await narrow(page);
    await page.getByRole("link", { name: "Start application" }).tap();
    await page.getByLabel("E-mail address").fill("noor@example.org");
    await page.getByRole("button", { name: "Send link" }).tap();
    await page.getByRole("heading", { name: "Check your inbox" }).waitFor();
    await page.goto(await mailedLink(apply.outbox, "noor@example.org", `${origin}/sign-up/`));
    await page.getByLabel("Your name").fill("Noor Haddad");
    await page.getByRole("button", { name: "Create account" }).tap();

    await page.getByRole("heading", { name: apply.name }).waitFor();
    await fill(page);
    await page.getByLabel("Why do you apply?").fill("For a scholarship");
    const file = page.locator("input[type=file]");
    await file.setInputFiles({ name: "list.csv", mimeType: "text/csv", buffer: Buffer.from("a,b") });
    await page.getByText("This file is not a PDF, JPG or PNG.").waitFor();
    await file.setInputFiles(plan.sample);
    await page.getByRole("button", { name: "Remove sample.pdf" }).waitFor();
    assert.equal(await page.getByLabel("Why do you apply?").inputValue(), "For a scholarship");
    await narrow(page);
    await page.reload();
    assert.equal(await page.getByLabel("Student number").inputValue(), "N 815");
    await page.getByRole("button", { name: "Continue to review" }).tap();
    await page.getByRole("heading", { name: "Review your application" }).waitFor();
    await narrow(page);
    await page.getByRole("button", { name: "Send application" }).tap();
    await page.getByRole("heading", { name: "Your application was sent" }).waitFor();
    await page.getByRole("link", { name: "Show application" }).tap();
    await page.getByRole("heading", { name: "Received" }).waitFor();

    const uuid = new URL(page.url()).pathname.split("/").pop();
    await review(page, apply, uuid, "hold", { kind: "information", text: "In which year did you attend?" });
    await page.reload();
    await page.getByText("In which year did you attend?").first().waitFor();
    await page.getByLabel("Your answer").fill("In 2025");
    await page.locator("input[type=file]").setInputFiles(plan.sample);
    await page.getByRole("button", { name: "Send answer" }).tap();
    await page.getByRole("heading", { name: "Answer sent" }).waitFor();
    assert.match(await page.locator(".note[role=status]").textContent(), /answer was sent/);
    await narrow(page);

    await review(page, apply, uuid, "approve", { certificate_title: "Attendance", issue_date: "2026-06-30" }, await readFile(plan.sample));
    for (let i = 0; !(await page.getByRole("link", { name: "Show certificate" }).count()); i++) {
      assert.ok(i < 100, "the certificate is not ready after 20 s");
      await page.waitForTimeout(200);
      await page.reload();
    }
    await page.getByRole("link", { name: "Show certificate" }).tap();
    await page.getByRole("heading", { name: "This certificate is valid" }).waitFor();
  }, host);

  await step("a person applies without JavaScript, and removes a file", { ...phone, javaScriptEnabled: false }, async (page) => {
    await page.context().addCookies([{ name: "__Host-session", value: apply.session, domain: new URL(apply.offers).hostname, path: "/", secure: true, httpOnly: true, sameSite: "Lax" }]);
    await page.goto(`${apply.offers}/attendance?lang=en`);
    await page.getByRole("link", { name: "Start application" }).click();
    await fill(page);
    await page.locator("input[type=file]").setInputFiles([plan.sample, plan.changed]);
    await page.getByRole("button", { name: "Save draft" }).click();
    await page.getByText("Your draft was saved.").waitFor();
    await page.getByRole("button", { name: "Remove changed.pdf" }).click();
    await page.getByText("The file was removed.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Remove changed.pdf" }).count(), 0);
    // Enter must save the draft. It must not remove a file or send the application.
    await page.getByLabel("Student number").press("Enter");
    await page.getByText("Your draft was saved.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Remove sample.pdf" }).count(), 1);
    await page.getByRole("button", { name: "Continue to review" }).click();
    await page.getByRole("link", { name: "Change answers" }).first().click();
    await page.getByLabel("Student number").fill("");
    await page.getByRole("button", { name: "Save draft" }).click();
    await page.getByText("Your draft was saved.").waitFor();
    await page.getByLabel("Student number").fill("N 816");
    await page.getByRole("button", { name: "Continue to review" }).click();
    await page.getByRole("button", { name: "Send application" }).click();
    await page.getByRole("link", { name: "Show application" }).click();
    await page.getByRole("link", { name: "Withdraw application" }).click();
    await page.getByRole("button", { name: "Withdraw application" }).click();
    await page.getByRole("heading", { level: 1, name: "Withdrawn" }).waitFor();
  }, host);
}

// review holds or approves an application with the token of the institution. what is "hold" or "approve".
async function review(page, apply, uuid, what, fields, file) {
  const response = await page.request.post(`${apply.api}/${uuid}/${what}`, {
    headers: { Authorization: `Bearer ${apply.token}`, Accept: "application/json" },
    ...(file ? { multipart: { ...fields, certificate_file: { name: "certificate.pdf", mimeType: "application/pdf", buffer: file } } } : { data: fields }),
  });
  assert.equal(response.status(), 200, `${what}: ${await response.text()}`);
}

// mailedLink waits for a mail to an address, and returns the link in the mail that begins with prefix.
async function mailedLink(outbox, address, prefix) {
  for (let i = 0; i < 100; i++) {
    for (const name of await readdir(outbox)) {
      const text = (await readFile(join(outbox, name), "utf8")).replaceAll("=\r\n", "");
      const at = text.indexOf(prefix);
      if (at >= 0 && text.includes(`<${address}>`)) return text.slice(at).match(/^\S+/)[0];
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`there is no mail to ${address}`);
}
