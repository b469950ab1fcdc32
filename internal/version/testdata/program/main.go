// Command program prints what the linker set.
package main

import (
	"fmt"

	"github.com/hearthdev/hearth/internal/version"
)

func main() { fmt.Println(version.Of(), version.Revision()) }
