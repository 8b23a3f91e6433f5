import { createHmac, timingSafeEqual } from 'node:crypto';

const same = (a, b) => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));

// headers are in lower case, body is a Buffer.
export function verifyPlain(secret, headers, body) {
  const expected = createHmac('sha256', secret).update(body).digest('hex');
  return same(expected, headers['x-webhook-signature'] ?? '');
}

export function verifyStandard(secret, headers, body, now = Date.now() / 1000) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (!id || !signatures || !(Math.abs(now - Number(timestamp)) < 300)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const expected = 'v1,' + createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64');
  return signatures.split(' ').some((signature) => same(expected, signature));
}
