//go:build failpoints

// Package failpoint names steps of the service at which tests kill the process, to see
// what a crash there leaves behind. Only a program built with the tag failpoints does
// that; in any other, Hit is empty.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Environment is the variable that says where the process is killed: the name of a step,
// or the name, "#", and how often the step must be reached before.
const Environment = "FAILPOINT"

// name and left are the step at which the process is killed, and how often it is reached
// until then.
var name, left = parse(os.Getenv(Environment))

func parse(text string) (name string, left *atomic.Int64) {
	name, times, counted := strings.Cut(text, "#")
	left = new(atomic.Int64)
	left.Store(1)
	if counted {
		n, err := strconv.ParseInt(times, 10, 64)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("%s: %q has no count", Environment, text))
		}
		left.Store(n)
	}
	return name, left
}

// Hit marks a step: everything before it is done, and nothing after it has begun. It
// kills the process there if Environment names the step.
func Hit(step string) {
	if step != name || left.Add(-1) != 0 {
		return
	}
	fmt.Fprintln(os.Stderr, "killed at", step)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal arrives
}
