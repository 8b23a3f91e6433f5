import base64, hashlib, hmac, time

# headers are in lower case, body is bytes.
def verify_plain(secret, headers, body):
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), headers.get("x-webhook-signature", "").encode())

def verify_standard(secret, headers, body, now=None):
    event, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs((now or time.time()) - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = b"v1," + base64.b64encode(hmac.new(key, f"{event}.{timestamp}.".encode() + body, hashlib.sha256).digest())
    return any(hmac.compare_digest(expected, s.encode()) for s in headers.get("webhook-signature", "").split())
