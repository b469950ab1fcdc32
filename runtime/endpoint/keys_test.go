package endpoint

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
)

// R50, R53: three ways to present a key, what each key opens, and that nothing else opens anything.
func TestAKeyOpensWhatItIsFor(t *testing.T) {
	both := Keys{View: "the-view-key", Steer: "the-steer-key"}
	for name, c := range map[string]struct {
		keys   Keys
		target string
		header http.Header
		want   access
	}{
		"header, view":               {both, "/acp", http.Header{"X-Secret-Key": {"the-view-key"}}, view},
		"header, steer":              {both, "/acp", http.Header{"X-Secret-Key": {"the-steer-key"}}, steer},
		"bearer":                     {both, "/acp", http.Header{"Authorization": {"Bearer the-steer-key"}}, steer},
		"bearer in another case":     {both, "/acp", http.Header{"Authorization": {"bearer the-view-key"}}, view},
		"token":                      {both, "/acp?token=the-view-key", nil, view},
		"none":                       {both, "/acp", nil, none},
		"wrong":                      {both, "/acp", http.Header{"X-Secret-Key": {"the-view-kez"}}, none},
		"a longer one":               {both, "/acp?token=the-view-keyy", nil, none},
		"basic":                      {both, "/acp", http.Header{"Authorization": {"Basic the-steer-key"}}, none},
		"the first one counts":       {both, "/acp?token=the-steer-key", http.Header{"X-Secret-Key": {"wrong"}}, none},
		"no keys, none presented":    {Keys{}, "/acp", nil, none},
		"no keys, empty presented":   {Keys{}, "/acp?token=", http.Header{"X-Secret-Key": {""}, "Authorization": {"Bearer "}}, none},
		"no steer key, something":    {Keys{View: "the-view-key"}, "/acp?token=the-steer-key", nil, none},
		"no view key, empty is none": {Keys{Steer: "the-steer-key"}, "/acp", nil, none},
	} {
		r := httptest.NewRequest(http.MethodGet, c.target, nil)
		r.Header = c.header
		assert.Equal(t, c.want, c.keys.access(r), name)
	}
}

// R50: a page of another site that a person has open cannot connect from the person's browser.
func TestAForeignOriginIsRefused(t *testing.T) {
	h := handler(Keys{View: "the-view-key"})
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
}
