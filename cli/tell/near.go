package tell

import (
	"cmp"
	"slices"
	"strings"
)

// Near are the names that somebody may have meant, the nearest first: a third of the letters may be others, and a beginning counts.
func Near(name string, names []string) []string {
	const most = 3
	type found struct {
		name string
		far  int
	}
	var near []found
	for _, n := range names {
		d := distance(strings.ToLower(name), strings.ToLower(n))
		if name != "" && d <= max(1, min(len(name), len(n))/3) || name != "" && (strings.HasPrefix(n, name) || strings.HasPrefix(name, n)) {
			near = append(near, found{n, d})
		}
	}
	slices.SortFunc(near, func(a, b found) int { return cmp.Or(a.far-b.far, strings.Compare(a.name, b.name)) })
	var out []string
	for _, n := range near[:min(most, len(near))] {
		out = append(out, n.name)
	}
	return out
}

// distance is how many letters are to be put in, taken out, changed or swapped with the next to make one word of the other.
func distance(a, b string) int {
	const most = 256 // no name is longer
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
