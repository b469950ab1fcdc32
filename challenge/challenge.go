// Package challenge turns a Pod's root secret into keys, proofs and answers (R26; SPEC.md, Keys and Challenge). It is pure:
// bytes in, bytes out. It is the only place that knows HKDF and HMAC.
package challenge

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/crypto/hkdf"
)

const (
	// MinRootBytes is the shortest root secret accepted.
	MinRootBytes = 32
	// Length is the number of characters of a challenge: 32 bytes in base64url without padding.
	Length = 43

	salt        = "hearth.dev/delivery/v1alpha1"
	requestInfo = "hearth-request-v1"
	answerInfo  = "hearth-answer-v1"
	keyBytes    = 32
)

// strict refuses encodings with stray bits in the last character, so that a challenge has exactly one spelling.
var encoding = base64.RawURLEncoding.Strict()

// Keys are what one Pod's root secret yields. The root itself never crosses the network.
type Keys struct {
	request, answer, tls []byte
}

// Derive makes the keys of one Pod. Binding to the Pod's UID makes those of a replaced Pod different under the same secret.
func Derive(root []byte, podUID string) (Keys, error) {
	if len(root) < MinRootBytes {
		return Keys{}, fmt.Errorf("root secret: expected at least %d bytes, got %d", MinRootBytes, len(root))
	}
	if podUID == "" {
		return Keys{}, fmt.Errorf("pod UID: expected it not to be empty")
	}
	var k Keys
	for _, r := range []struct {
		role string
		key  *[]byte
	}{{"request", &k.request}, {"answer", &k.answer}, {"tls", &k.tls}} {
		info := lengthPrefixed(lengthPrefixed(nil, r.role), podUID)
		*r.key = make([]byte, keyBytes)
		if _, err := io.ReadFull(hkdf.New(sha256.New, root, []byte(salt), info), *r.key); err != nil {
			return Keys{}, fmt.Errorf("derive key %q: %w", r.role, err)
		}
	}
	return k, nil
}

// New makes a fresh challenge from a source of random bytes.
func New(random io.Reader) (string, error) { return randomText(random) }

// NewRoot makes a root secret as the controller stores it: 43 characters of base64url.
func NewRoot(random io.Reader) (string, error) { return randomText(random) }

func randomText(random io.Reader) (string, error) {
	var b [keyBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("random bytes: %w", err)
	}
	return encoding.EncodeToString(b[:]), nil
}

// Valid tells whether a challenge is well-formed.
func Valid(challenge string) bool {
	if len(challenge) != Length {
		return false
	}
	b, err := encoding.DecodeString(challenge)
	return err == nil && len(b) == keyBytes // line ends, which the decoder skips, would leave fewer
}

// Request is what a proof covers, as sent: Target is path and query, Boot is "" only when challenging.
type Request struct {
	Method, Target  string
	PodName, PodUID string
	Boot, Challenge string
	Body            []byte
}

// Proof is the caller's MAC over a request.
func (k Keys) Proof(r Request) string {
	m := mac(k.request, requestInfo, r.Method, r.Target, r.PodName, r.PodUID, r.Boot, r.Challenge)
	return finish(m, r.Body)
}

// VerifyProof compares in constant time.
func (k Keys) VerifyProof(r Request, proof string) bool { return equal(k.Proof(r), proof) }

// Answer is the harness's MAC over its response to a request.
func (k Keys) Answer(r Request, status int, body []byte) string {
	m := mac(k.answer, answerInfo, r.Challenge, r.Method, r.Target, strconv.Itoa(status), r.PodUID, r.Boot)
	return finish(m, body)
}

// VerifyAnswer compares in constant time. A response without a valid answer did not come from the target.
func (k Keys) VerifyAnswer(r Request, status int, body []byte, answer string) bool {
	return equal(k.Answer(r, status, body), answer)
}

// TLSKey is the Ed25519 key of the Pod's delivery listener; a caller pins its public half (SPEC.md, Confidentiality).
func (k Keys) TLSKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.tls) }

// String hides the keys from every log and message.
func (k Keys) String() string { return "keys(redacted)" }

// GoString hides the keys from %#v too.
func (k Keys) GoString() string { return k.String() }

type writer interface {
	io.Writer
	Sum([]byte) []byte
}

func mac(key []byte, parts ...string) writer {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(lengthPrefixed(nil, p))
	}
	return m
}

func finish(m writer, body []byte) string {
	digest := sha256.Sum256(body)
	_, _ = m.Write(digest[:]) // a hash never fails to take bytes
	return encoding.EncodeToString(m.Sum(nil))
}

func equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// lengthPrefixed is LP(x): the length of x as four bytes big-endian, then x.
func lengthPrefixed(to []byte, x string) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(x))) //nolint:gosec // every part is bounded far below 4 GiB
	return append(to, x...)
}
