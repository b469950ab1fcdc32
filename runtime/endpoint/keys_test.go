package endpoint

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/hearthdev/hearth/runtime/attach"
)

// R50, R53: three ways to present a key, what each key opens, and that nothing else opens anything.
func TestAKeyOpensWhatItIsFor(t *testing.T) {
	both := Keys{View: "the-view-key", Steer: "the-steer-key"}
	for name, c := range map[string]struct {
		keys   Keys
		target string
		header http.Header
		want   attach.Access
	}{
		"header, view":               {both, "/acp", http.Header{"X-Secret-Key": {"the-view-key"}}, attach.View},
		"header, steer":              {both, "/acp", http.Header{"X-Secret-Key": {"the-steer-key"}}, attach.Steer},
		"bearer":                     {both, "/acp", http.Header{"Authorization": {"Bearer the-steer-key"}}, attach.Steer},
		"bearer in another case":     {both, "/acp", http.Header{"Authorization": {"bearer the-view-key"}}, attach.View},
		"token":                      {both, "/acp?token=the-view-key", nil, attach.View},
		"the older platform's":       {Keys{View: "the-view-key", Steer: "the-steer-key", OlderSteer: "the-older-key"}, "/acp?token=the-older-key", nil, attach.Steer},
		"the other of the two":       {Keys{Steer: "the-steer-key", OlderSteer: "the-older-key"}, "/acp?token=the-steer-key", nil, attach.Steer},
		"the older alone":            {Keys{OlderSteer: "the-older-key"}, "/acp?token=the-older-key", nil, attach.Steer},
		"none":                       {both, "/acp", nil, attach.None},
		"wrong":                      {both, "/acp", http.Header{"X-Secret-Key": {"the-view-kez"}}, attach.None},
		"a longer one":               {both, "/acp?token=the-view-keyy", nil, attach.None},
		"basic":                      {both, "/acp", http.Header{"Authorization": {"Basic the-steer-key"}}, attach.None},
		"the first one counts":       {both, "/acp?token=the-steer-key", http.Header{"X-Secret-Key": {"wrong"}}, attach.None},
		"no keys, none presented":    {Keys{}, "/acp", nil, attach.None},
		"no keys, empty presented":   {Keys{}, "/acp?token=", http.Header{"X-Secret-Key": {""}, "Authorization": {"Bearer "}}, attach.None},
		"no steer key, something":    {Keys{View: "the-view-key"}, "/acp?token=the-steer-key", nil, attach.None},
		"no view key, empty is none": {Keys{Steer: "the-steer-key"}, "/acp", nil, attach.None},
	} {
		r := httptest.NewRequest(http.MethodGet, c.target, nil)
		r.Header = c.header
		assert.Equal(t, c.want, c.keys.access(r), name)
	}
}

// R50: a page of another site that a person has open cannot connect from the person's browser.
func TestAForeignOriginIsRefused(t *testing.T) {
	h := New(Config{Log: slog.New(slog.DiscardHandler), Keys: Keys{View: "the-view-key"}}).handler()
	for origin, want := range map[string]int{
		"": http.StatusNotImplemented, "http://pod:4000": http.StatusNotImplemented, "https://POD:4000": http.StatusNotImplemented,
		"http://evil.example": http.StatusForbidden, "http://pod:4001": http.StatusForbidden, "null": http.StatusForbidden, "http://": http.StatusForbidden,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://pod:4000/acp?token=the-view-key", nil)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		assert.Equal(t, want, w.Code, origin)
		assert.NotContains(t, w.Body.String(), "the-view-key")
	}
	r := httptest.NewRequest(http.MethodGet, "http://pod:4000/acp?token=the-view-key", nil)
	r.Header["Origin"] = []string{"http://pod:4000", "http://evil.example"}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	assert.Equal(t, http.StatusForbidden, w.Code, "one of two")
}
