package kontext

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Sign is the signature of an answer: HMAC-SHA256 under the token's own characters over the version, the caller's challenge,
// the run's UID and the exact body, parted by NUL bytes; base64url without padding.
func Sign(token []byte, challenge, runUID string, body []byte) string {
	mac := hmac.New(sha256.New, token)
	for _, part := range []string{APIVersion, challenge, runUID} {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	mac.Write(body)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
