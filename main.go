// Command stepboard is a friends-leaderboard backend; see README.md.
package main

import (
	"os"

	"stepboard/app"
)

func main() { os.Exit(app.Main(os.Args[1:], os.Stdout, os.Stderr)) }
