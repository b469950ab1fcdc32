package kontext

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Bounds within a result that has to be cut.
const (
	// maxErrorBytes bounds an error's message, as encoded, when the whole does not fit.
	maxErrorBytes = 1024
	// maxWordBytes bounds a media type and a code: longer ones are no words.
	maxWordBytes = 128

	// cutMark ends an error's message that was cut: the contract has no field that says so.
	cutMark = " [cut]"
	// cutMediaType and cutValue stand for a JSON output that does not fit: a part of it would be no JSON. The contract's own words.
	cutMediaType = "application/vnd.kontext.truncated+json"
	cutValue     = `{"truncated":true}`
)

// Encode is the body of an answer: the envelope as that contract has it, in at most MaxResultBytes. What does not fit is cut in
// this order, and the result says so: the extension, an error's long message, the output. Text is cut between two runes. The
// same envelope is always the same bytes.
func Encode(e wire.Envelope) []byte {
	r := From(e)
	if r.Output != nil && len(r.Output.MediaType) > maxWordBytes {
		r.Output.MediaType = plainText
	}
	if r.Error != nil {
		r.Error.Code = wire.CutText(r.Error.Code, maxWordBytes)
	}
	whole := encode(r)
	cut := &Truncation{OriginalBytes: int64(len(whole))}
	if e.Truncation != nil { // the output was cut before it came here
		cut.OutputTruncated = true
		if e.Output != nil {
			cut.OriginalBytes += max(0, e.Truncation.OriginalBytes-int64(len(e.Output.Value)))
		}
		r.Truncation = cut
		whole = encode(r)
	}
	if len(whole) <= MaxResultBytes {
		return whole
	}
	r.Truncation, r.Extensions, cut.ExtensionsTruncated = cut, nil, true
	if b := encode(r); len(b) <= MaxResultBytes {
		return b
	}
	if r.Error != nil {
		r.Error.Message = cutMessage(r.Error.Message)
	}
	if b := encode(r); len(b) <= MaxResultBytes || r.Output == nil {
		return b
	}
	cut.OutputTruncated = true
	return cutOutput(r)
}

// cutMessage shortens a message so that it is at most maxErrorBytes encoded.
func cutMessage(message string) string {
	if len(text(message)) <= maxErrorBytes {
		return message
	}
	return wire.CutEncoded(message, maxErrorBytes-len(text(cutMark))) + cutMark
}

// cutOutput keeps as much of a text as fits; of a JSON value nothing.
func cutOutput(r Result) []byte {
	whole := r.Output.Value
	if whole.Kind() != '"' || !strings.HasPrefix(r.Output.MediaType, "text/") {
		r.Output = &Output{MediaType: cutMediaType, Value: jsontext.Value(cutValue)}
		return encode(r)
	}
	plain, err := jsontext.AppendUnquote(nil, whole)
	if err != nil {
		panic(err) // it was quoted here
	}
	r.Output = &Output{MediaType: r.Output.MediaType, Value: text("")}
	r.Output.Value = text(wire.CutEncoded(string(plain), MaxResultBytes-len(encode(r))))
	return encode(r)
}

func encode(r Result) []byte {
	b, err := wire.Encode(r)
	if err != nil {
		panic(err) // our own types always encode
	}
	return b
}
