package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

func wireCases() []Case {
	return []Case{
		{ID: "W-1", Title: "the listener is up for the whole life of the harness, drain included", needs: drains, run: upWhileDraining},
		{ID: "W-2", Title: "the listener speaks HTTP/1.1", run: func(t *trial) {
			a := t.send(t.challenge())
			t.check(a.proto == "HTTP/1.1", "expected an HTTP/1.1 response, got %s", a.proto)
		}},
		{ID: "W-3", Title: "bodies are JSON in UTF-8", run: func(t *trial) {
			k := fresh()
			t.finished(k)
			for _, c := range []call{t.challenge(), t.call(http.MethodGet, k.path(), nil), t.call(http.MethodGet, wire.RunsPath+"?since=0", nil)} {
				a := t.send(c)
				media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
				t.check(media == "application/json", "%s: expected Content-Type application/json, got %q", a.what, media)
				t.check(json.Valid(a.body) && utf8.Valid(a.body), "%s: expected a JSON value in UTF-8", a.what)
			}
		}},
	}
}

func upWhileDraining(t *trial) {
	k := fresh()
	t.running(k)
	t.drain()
	t.hello()
	t.want(t.get(k), http.StatusOK, "")
}
