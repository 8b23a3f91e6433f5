import assert from "node:assert/strict";
import { visit } from "./browser.mjs";

// checkApplications checks the decisions about applications by keyboard, and the forms without JavaScript.
export async function checkApplications(step, plan) {
  const one = plan.pages.find((page) => page.name === "applications");
  const heading = async (page) => (await page.locator("h1 bdi").textContent()).trim();
  // notice waits for the page with a notice, and for the load of that page, because its scripts handle the next key.
  const notice = async (page, text) => {
    await page.locator(".note[role=status]").filter({ hasText: text }).waitFor();
    await page.waitForLoadState("load");
  };

  await step("several applications are decided by keyboard alone", {}, async (page) => {
    await visit(page, one, one.url);
    const offer = await page.locator("#offer option", { hasText: "Bachelor of Arts" }).getAttribute("value");
    await page.goto(`${one.url}?tab=new&offer=${offer}`);
    const first = (await page.locator(".queue .c-name").nth(1).textContent()).trim();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/applications\/[0-9a-f-]{36}/);
    assert.equal(await heading(page), first);

    // The key a moves the focus to the button that approves, and Enter presses it.
    await page.keyboard.press("a");
    assert.equal(await page.evaluate(() => document.activeElement.id), "issue");
    await page.keyboard.press("Enter");
    await notice(page, "was approved");
    const second = await heading(page);
    assert.notEqual(second, first);

    // The key h moves the focus to the text of a hold, and Ctrl+Enter submits the form.
    await page.keyboard.press("h");
    assert.equal(await page.evaluate(() => document.activeElement.id), "text");
    await page.keyboard.type("Which course did you complete?");
    await page.keyboard.press("Control+Enter");
    await notice(page, "put on hold");
    const third = await heading(page);

    await page.keyboard.press("r");
    assert.equal(await page.evaluate(() => document.activeElement.id), "reason");
    await page.keyboard.type("You did not complete the course.");
    await page.keyboard.press("Control+Enter");
    await notice(page, "was rejected");
    const fourth = await heading(page);

    // The key n opens the next application without a decision.
    await page.keyboard.press("n");
    await page.waitForFunction((name) => document.querySelector("h1 bdi").textContent.trim() !== name, fourth);
    assert.equal(new Set([first, second, third, fourth, await heading(page)]).size, 5);
  });
  await step("applications are selected by keyboard, and claimed together", {}, async (page) => {
    await visit(page, one, `${one.url}?tab=new`);
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.keyboard.press("j");
    await page.keyboard.press("x");
    await page.getByText("2 selected").waitFor();
    await page.locator(".selection button[value=claim]").press("Enter");
    await page.getByText("2 applications were claimed.").waitFor();
  });
  await step("without JavaScript, a question is added to an offer, and an application is rejected", { javaScriptEnabled: false }, async (page) => {
    const offer = plan.pages.find((found) => found.name === "offer-new");
    await visit(page, offer, offer.url);
    // Each button submits the form, and the next page has one question more or less.
    const questions = page.locator(".questions > li");
    await page.getByRole("button", { name: "Add question" }).click();
    await questions.first().waitFor();
    await page.getByRole("button", { name: "Add question" }).click();
    await questions.nth(1).waitFor();
    assert.equal(await questions.count(), 2);
    await page.getByRole("button", { name: "Remove" }).first().click();
    await questions.nth(1).waitFor({ state: "detached" });
    await questions.first().waitFor();
    assert.equal(await questions.count(), 1);
    const application = plan.pages.find((found) => found.name === "application-reject");
    await visit(page, application, application.url);
    await page.locator("#reason").fill("The proof is not readable.");
    await page.getByRole("button", { name: "Reject application" }).click();
    await notice(page, "was rejected");
  });
}
