package turn

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// costDecimals is how exactly money is counted: what the wire can say (SPEC.md, Envelope). Agents compute costs in binary
// floating point; what is beyond these decimals is dust of that.
const costDecimals = 9

// number is a JSON number that may be an amount of money: none is below zero, and none is so long or large that counting it takes long.
var number = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9]{1,32}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$`)
})

// meter counts what a turn uses, as far as the agent tells, and watches its budget (R30).
type meter struct {
	tokens   int64    // the budget; 0: none
	cost     *big.Rat // the budget; nil: none
	currency string

	before  Account    // what was told of the session when the turn began
	account Account    // … and what was told since
	answers wire.Usage // of the answers to the turn's prompts together
	usage   wire.Usage // what the turn used
	context int64      // the most tokens that were in the agent's context: so many at least were used
	spent   *big.Rat   // in the budget's currency
	foreign string     // a currency that is not the budget's
}

func newMeter(l Limits) meter {
	m := meter{tokens: l.Tokens}
	if l.Cost != nil {
		m.cost, m.currency = amount(l.Cost.Amount), l.Cost.Currency
	}
	return m
}

// amount reads a decimal number, rounded to costDecimals; nil: it is none.
func amount(text string) *big.Rat {
	if !number().MatchString(text) {
		return nil
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	rounded, _ := new(big.Rat).SetString(exact.FloatString(costDecimals))
	return rounded
}

// plain writes an amount without needless zeros.
func plain(a *big.Rat) string {
	text := a.FloatString(costDecimals)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// count takes the tokens of all model calls of a session. Zero of them is no measurement.
func (a *Account) count(input, output int64) bool {
	if input < 0 || output < 0 || input > math.MaxInt64-output || input+output == 0 {
		return false
	}
	a.Input, a.Output = input, output
	return true
}

// pay takes a session's cost; nil: it is none.
func (a *Account) pay(raw jsontext.Value, currency string) *big.Rat {
	cost := amount(string(raw))
	if cost != nil {
		a.Cost, a.Currency = plain(cost), wire.CutText(wire.CleanText(currency), maxCurrency)
	}
	return cost
}

// full takes how many tokens are in the agent's context. It tells whether that is news: some agents begin by saying again what the
// last turn left there.
func (m *meter) full(used int64) bool {
	if m.account.Context = max(0, used); used <= 0 || used == m.before.Context {
		return false
	}
	m.context = max(m.context, used)
	return true
}

// paid takes the session's cost so far; false: it is none.
func (m *meter) paid(raw jsontext.Value, currency string) bool {
	cost := m.account.pay(raw, currency)
	if cost == nil {
		return false
	}
	if had := amount(m.before.Cost); had != nil && m.account.Currency == m.before.Currency {
		switch cost.Cmp(had) {
		case 0:
			return true // nothing was spent since
		case 1:
			cost.Sub(cost, had)
		default:
			m.before.Cost = "" // the agent began to count anew
		}
	}
	m.usage.Cost = &wire.Cost{Amount: plain(cost), Currency: m.account.Currency}
	switch {
	case currency != m.currency:
		m.foreign = m.usage.Cost.Currency
	case m.spent == nil || cost.Cmp(m.spent) > 0:
		m.spent = cost
	}
	return true
}

// accumulated takes the tokens of all model calls of the session so far.
func (m *meter) accumulated(input, output int64) {
	if !m.account.count(input, output) {
		return
	}
	if input < m.before.Input || output < m.before.Output {
		m.before.Input, m.before.Output = 0, 0 // the agent began to count anew
	}
	input, output = input-m.before.Input, output-m.before.Output
	if total := input + output; total > 0 {
		m.usage.InputTokens, m.usage.OutputTokens, m.usage.TotalTokens = &input, &output, &total
	}
}

// answered takes the usage of the answer to one prompt, unless more was told before: some agents answer with the last model call's.
func (m *meter) answered(u *wire.Usage) {
	if u == nil {
		return
	}
	m.answers = wire.Usage{
		InputTokens: sum(m.answers.InputTokens, u.InputTokens), OutputTokens: sum(m.answers.OutputTokens, u.OutputTokens),
		TotalTokens: sum(m.answers.TotalTokens, u.TotalTokens),
	}
	if m.usage.TotalTokens != nil && total(m.answers) < *m.usage.TotalTokens {
		return
	}
	m.usage.InputTokens, m.usage.OutputTokens, m.usage.TotalTokens = m.answers.InputTokens, m.answers.OutputTokens, m.answers.TotalTokens
}

// sum adds two figures of which either may not have been measured.
func sum(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	both := max(0, *a)
	both += min(max(0, *b), math.MaxInt64-both)
	return &both
}

// total is the sum of all tokens, as far as it was told.
func total(u wire.Usage) int64 {
	if u.TotalTokens != nil {
		return *u.TotalTokens
	}
	var sum int64
	for _, n := range []*int64{u.InputTokens, u.OutputTokens} {
		if n != nil {
			sum += min(max(0, *n), math.MaxInt64-sum)
		}
	}
	return sum
}

// told is what was measured; nil: nothing was.
func (m *meter) told() *wire.Usage {
	if m.usage == (wire.Usage{}) {
		return nil
	}
	u := m.usage
	return &u
}

// over says in words by what the budget is exceeded; "" while it is not.
func (m *meter) over() string {
	switch used := total(m.usage); {
	case m.tokens > 0 && used > m.tokens:
		return fmt.Sprintf("the budget of %d tokens is exceeded: the agent tells of %d", m.tokens, used)
	case m.tokens > 0 && m.context > m.tokens:
		return fmt.Sprintf("the budget of %d tokens is exceeded: the agent's context alone has %d", m.tokens, m.context)
	case m.cost != nil && m.spent != nil && m.spent.Cmp(m.cost) > 0:
		return fmt.Sprintf("the budget of %s %s is exceeded: the agent tells of %s", plain(m.cost), m.currency, plain(m.spent))
	}
	return ""
}

// blind says what of the budget could not be watched, because the agent did not tell it.
func (m *meter) blind() []string {
	var out []string
	switch measured := m.usage.TotalTokens != nil || m.usage.InputTokens != nil || m.usage.OutputTokens != nil; {
	case m.tokens == 0 || measured:
	case m.context > 0:
		out = append(out, fmt.Sprintf("the agent told how full its context was and counted no tokens: more than the budget of %d tokens may have been used", m.tokens))
	default:
		out = append(out, fmt.Sprintf("the agent told of no tokens, so the budget of %d tokens could not be watched", m.tokens))
	}
	if m.cost == nil || m.spent != nil {
		return out
	}
	why := "the agent told of no cost"
	if m.foreign != "" {
		why = fmt.Sprintf("the agent told of its cost in %q only", m.foreign)
	}
	return append(out, fmt.Sprintf("%s, so the budget of %s %s could not be watched", why, plain(m.cost), m.currency))
}
