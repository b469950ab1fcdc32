package hostile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/endpoint"
	"github.com/hearthdev/hearth/test/agent/agenttest"
)

// planted is in every malformed request; no answer may repeat it.
const planted = "planted-text"

// shape is one malformed or odd request, and the statuses of the answers of each port to it, in order. HOST, PATH and CHALLENGE
// stand for the port's own. Behind many a second request follows, as smuggling would have it: who reads the first one
// otherwise than its sender meant must not go on reading.
type shape struct {
	name          string
	acp, delivery []int
	text          string
}

const second = "GET /" + planted + " HTTP/1.1\r\nHost: HOST\r\n\r\n"

var shapes = []shape{
	{"two Content-Length that differ", []int{400}, []int{400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nxxxxx" + second},
	{"two Content-Length that agree", []int{401}, []int{401, 400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nxxxxx" + second},
	{"Content-Length as a list", []int{400}, []int{400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5, 5\r\n\r\nxxxxx" + second},
	{"Content-Length negative", []int{400}, []int{400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nContent-Length: -5\r\n\r\n" + second},
	{"Content-Length with a sign", []int{400}, []int{400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nContent-Length: +5\r\n\r\nxxxxx" + second},
	{"Content-Length beyond 64 bits", []int{400}, []int{400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nContent-Length: 99999999999999999999\r\n\r\n" + second},
	{"Content-Length and Transfer-Encoding", []int{401}, []int{401}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second},
	{"Transfer-Encoding identity", []int{501}, []int{501}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: identity\r\n\r\n" + second},
	{"Transfer-Encoding xchunked", []int{501}, []int{501}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + second},
	{"Transfer-Encoding twice", []int{501}, []int{501}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + second},
	{"Transfer-Encoding gzip, chunked", []int{501}, []int{501}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + second},
	{"Transfer-Encoding in HTTP/1.0", []int{401}, []int{400}, "POST PATH HTTP/1.0\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second},
	{"space before the colon", []int{400}, []int{400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nContent-Length : 5\r\n\r\nxxxxx" + second},
	{"folded header", []int{401, 404}, []int{400, 400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nX-Fold: a\r\n " + planted + "\r\n\r\n" + second},
	{"folded first header", []int{400}, []int{400}, "POST PATH HTTP/1.1\r\n Host: HOST\r\n\r\n" + second},
	{"NUL in a header", []int{400}, []int{400}, "GET PATH HTTP/1.1\r\nHost: HOST\r\nX-Nul: a\x00" + planted + "\r\n\r\n" + second},
	{"bare CR in a header", []int{400}, []int{400}, "GET PATH HTTP/1.1\r\nHost: HOST\r\nX-Cr: a\rContent-Length: 40\r\n\r\n" + second},
	{"bare LF as line ends", []int{401, 404}, []int{400, 400}, "GET PATH HTTP/1.1\nHost: HOST\n\n" + second},
	{"no colon in a header", []int{400}, []int{400}, "GET PATH HTTP/1.1\r\nHost: HOST\r\n" + planted + "\r\n\r\n" + second},
	{"empty header name", []int{400}, []int{400}, "GET PATH HTTP/1.1\r\nHost: HOST\r\n: " + planted + "\r\n\r\n" + second},
	{"header name not ASCII", []int{400}, []int{400}, "GET PATH HTTP/1.1\r\nHost: HOST\r\nX-\xff: " + planted + "\r\n\r\n" + second},
	{"no Host", []int{400}, []int{400}, "GET PATH HTTP/1.1\r\nCHALLENGE\r\n\r\n" + second},
	{"two Hosts", []int{400}, []int{400}, "GET PATH HTTP/1.1\r\nHost: HOST\r\nHost: " + planted + "\r\n\r\n" + second},
	{"Host that is none", []int{400}, []int{400}, "GET PATH HTTP/1.1\r\nHost: a b/" + planted + "\r\n\r\n" + second},
	{"Host of another", []int{401}, []int{421}, "GET PATH HTTP/1.1\r\nHost: " + planted + "\r\nCHALLENGE\r\n\r\n"},
	{"absolute-form target of another host", []int{401}, []int{421}, "GET http://" + planted + "PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\n\r\n"},
	{"absolute-form target of this host", []int{401}, []int{401}, "GET http://HOSTPATH HTTP/1.1\r\nHost: " + planted + "\r\nCHALLENGE\r\n\r\n"},
	{"target without a slash", []int{400}, []int{400}, "GET " + planted + " HTTP/1.1\r\nHost: HOST\r\n\r\n" + second},
	{"target with a space", []int{400}, []int{400}, "GET PATH" + planted + " x HTTP/1.1\r\nHost: HOST\r\n\r\n" + second},
	{"target with a fragment and dots", []int{404}, []int{401}, "GET /../..//PATH/../" + planted + "?#x HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\n\r\n"},
	{"target with bad escapes", []int{400}, []int{400}, "GET /%zz HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\n\r\n"},
	{"CONNECT", []int{404}, []int{400}, "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n"},
	{"CONNECT with a challenge", []int{404}, []int{401}, "CONNECT HOST:80 HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\n\r\n"},
	{"OPTIONS *", []int{404}, []int{400}, "OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n"},
	{"OPTIONS * with a challenge", []int{404}, []int{401}, "OPTIONS * HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\n\r\n"},
	{"TRACE", []int{401}, []int{401}, "TRACE PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nX-Trace: " + planted + "\r\n\r\n"},
	{"a method of one's own", []int{401}, []int{401}, "PLANT PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\n\r\n"},
	{"a method that is no token", []int{400}, []int{400}, "G(T PATH HTTP/1.1\r\nHost: HOST\r\n\r\n" + second},
	{"HTTP/2 by prior knowledge", nil, []int{400}, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
	{"HTTP/2 preface with a challenge", []int{404}, []int{401}, "PRI * HTTP/2.0\r\nHost: HOST\r\nCHALLENGE\r\n\r\n"},
	{"h2c upgrade", []int{401}, []int{401}, "GET PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"},
	{"WebSocket upgrade", []int{401}, []int{401}, "GET PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"},
	{"HTTP/0.9", []int{400}, []int{400}, "GET PATH\r\n\r\n"},
	{"HTTP/3.0", []int{505}, []int{505}, "GET PATH HTTP/3.0\r\nHost: HOST\r\n\r\n" + second},
	{"HTTP/1.999", []int{400}, []int{400}, "GET PATH HTTP/1.999\r\nHost: HOST\r\n\r\n" + second},
	{"not HTTP", []int{400}, []int{400}, "\x00\x01\x02" + planted + "\r\n\r\n" + second},
	{"Expect of something else", []int{417}, []int{417}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nExpect: " + planted + "\r\nContent-Length: 1\r\n\r\nx"},
	{"Expect without a body", []int{401}, []int{401}, "GET PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nExpect: 100-continue\r\n\r\n"},
	{"chunk size that is none", []int{401}, []int{401}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + planted + "\r\n0\r\n\r\n"},
	{"chunk size beyond 64 bits", []int{401}, []int{401}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx\r\n0\r\n\r\n"},
	{"chunk size negative", []int{401}, []int{401}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n"},
	{"chunk longer than said", []int{401}, []int{401}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxxxx\r\n0\r\n\r\n"},
	{"chunk without an end", []int{401}, []int{401}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nxx"},
	{"trailer that is a challenge", []int{401}, []int{400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nTrailer: Hearth-Challenge\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nCHALLENGE\r\n\r\n"},
	{"trailer Content-Length", []int{400}, []int{400}, "POST PATH HTTP/1.1\r\nHost: HOST\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n" + second},
	{"a challenge twice", []int{401}, []int{400}, "GET PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\nCHALLENGE\r\n\r\n"},
	{"three pipelined", []int{401, 401, 401}, []int{401, 401, 401}, strings.Repeat("GET PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\n\r\n", 3)},
	{"HEAD", []int{401}, []int{401}, "HEAD PATH HTTP/1.1\r\nHost: HOST\r\nCHALLENGE\r\n\r\n"},
	{"nothing at all", nil, nil, ""},
	{"line ends only", []int{400}, []int{400}, "\r\n\r\n\r\n"},
}

// shapes sends each odd request to each port. It gets short answers with nothing in them that it said, or none.
func (p *pod) shapes(t *testing.T) {
	p.t = t
	a := &assault{pod: p, ctx: t.Context()}
	head := a.head("GET", "")
	valid := strings.TrimSpace(head[strings.Index(head, wire.HeaderChallenge):])
	for _, s := range shapes {
		for _, port := range []struct {
			name, address, path string
			want                []int
		}{{"acp", a.acp, endpoint.PathACP, s.acp}, {"delivery", a.delivery, wire.ChallengePath, s.delivery}} {
			text := strings.NewReplacer("HOST", p.Identity.PodName, "PATH", port.path, "CHALLENGE", valid).Replace(s.text)
			statuses, all := a.exchange(t, port.address, text)
			assert.Equal(t, port.want, statuses, "%s, %s", s.name, port.name)
			assert.NotContains(t, all, planted, "%s, %s", s.name, port.name)
		}
	}
	_, err := p.deliver(t.Context())
	require.NoError(t, err)
	assert.Len(t, agenttest.Effects(t, p.effects), p.runs)
}

// exchange sends a text, ends its side, and returns the statuses of all answers.
func (a *assault) exchange(t *testing.T, address, text string) (statuses []int, bodies string) {
	t.Helper()
	conn, err := a.dial(address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, text)
	_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	all, _ := io.ReadAll(conn) // a reset is an end, too
	// HTTP/2 begins with settings (RFC 9113, section 3.4). They are no answer, and need not come before our end was seen.
	if settings := []byte{4, 0, 0, 0, 0, 0}; len(all) > 9 && bytes.Equal(all[3:9], settings) { // type, flags, stream
		return nil, string(all)
	}
	in := bufio.NewReader(bytes.NewReader(all))
	for {
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				statuses = append(statuses, -1)
			}
			return statuses, string(all)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		statuses = append(statuses, response.StatusCode)
	}
}
