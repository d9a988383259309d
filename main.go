// Command stepboard is a friends-leaderboard backend; see README.md.
package main

import (
	"os"

	"stepboard/app/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
