package main

import "regexp"

// allowed are the licences (SPDX) that what we ship may be under: all permit redistribution without further conditions on our
// own code. MPL-2.0 asks for the source of its own files only, which are public and unchanged.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "CC0-1.0"}

// minCoverage is how much of a licence file, in percent, must be a known text. Copyright lines and headings are the rest.
const minCoverage = 75

// rider matches what is put beside a permissive licence to take some of it back: the long text still covers most of the file.
var rider = regexp.MustCompile(`(?i)commons\s+clause|commercial|production|right\s+to\s+sell|may\s+not|must\s+not|prohibited|military`)
