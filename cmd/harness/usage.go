package main

import "errors"

const usage = `usage: harness serve [flags] -- COMMAND [ARGUMENT...]
       harness run [flags] -- COMMAND [ARGUMENT...]
       harness check [flags] [-o json] -- COMMAND [ARGUMENT...]
       harness version
`

// errUsage marks what the caller typed wrong; it exits with 2, but for run, which has another use of that.
var errUsage = errors.New("see harness serve --help, or harness run --help")
