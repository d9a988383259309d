// Command cost measures what checks cost, and compares it with a budget. Machines differ, so a cost is the
// processor time of a command and of all processes that it has started, divided by that of a fixed piece of
// work on the same machine. What it measures it appends to the file that COSTS names, as a line of an area and
// seconds.
//
//	cost run AREA COMMAND…  runs a command for an area
//	cost test COMMAND…      runs a test's program for the area of its package: go test -exec 'cost test'
//	cost work               does the fixed piece of work on each processor at once
//	cost report BUDGETS     prints each area beside its budget, and fails if one costs half as much again
//
// BUDGETS is a YAML file whose mapping "checks" has the budget of each area. Tests belong to the area with the
// longest name that their package's folder begins with. What a command costs does not count what tests within it
// cost.
package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

func main() {
	status, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func run(args []string, out io.Writer) (status int, err error) {
	costs := os.Getenv("COSTS")
	switch {
	case costs == "":
		return 2, errors.New("COSTS names no file")
	case len(args) > 2 && args[0] == "run":
		return measured(costs, args[1], args[2:])
	case len(args) > 1 && args[0] == "test":
		folder, err := os.Getwd()
		if err != nil {
			return 1, err
		}
		return measured(costs, testsOf+folder, args[1:])
	case len(args) == 1 && args[0] == "work":
		return 0, work(costs)
	case len(args) == 2 && args[0] == "report":
		return 0, report(out, costs, args[1])
	}
	return 2, errors.New("usage: cost run AREA COMMAND… | test COMMAND… | work | report BUDGETS")
}

const (
	testsOf  = "tests of " // before the folder of a package
	workArea = "work"
)

// note appends a line to the file of costs. Processes that measure at the same time append whole lines.
func note(costs, area string, used time.Duration) error {
	file, err := os.OpenFile(costs, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%.3f %s\n", used.Seconds(), area)
	return errors.Join(err, file.Close())
}

// processorTime returns the processor time of this process, or of its descendants that it waited for.
func processorTime(who int) (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// measured runs a command and notes what it cost. Processes that it leaves behind become ours, and count if they
// end soon: Chromium's do.
func measured(costs, area string, command []string) (status int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("prctl: %w", err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // it runs what it is told to, until that ends
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // or it has ended
		}
	}()
	ended, err := await(cmd.Process.Pid)
	if err != nil {
		return 1, err
	}
	used, err := processorTime(syscall.RUSAGE_CHILDREN)
	if err != nil {
		return 1, err
	}
	if !ended.Exited() {
		return 1, note(costs, area, used)
	}
	return ended.ExitStatus(), note(costs, area, used)
}

// await waits for a child and, for two seconds more, for processes that it leaves behind.
func await(child int) (ended syscall.WaitStatus, err error) {
	for pid := 0; pid != child; {
		if pid, err = syscall.Wait4(-1, &ended, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return ended, fmt.Errorf("wait4: %w", err)
		}
	}
	for patience := time.Now().Add(2 * time.Second); time.Now().Before(patience); {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.ECHILD) {
			break
		}
		if pid == 0 {
			<-time.After(10 * time.Millisecond)
		}
	}
	return ended, nil
}

// work does a fixed piece of work on each processor at once, as checks use them all, and notes the average.
func work(costs string) error {
	var all sync.WaitGroup
	processors := runtime.GOMAXPROCS(0)
	for range processors {
		all.Go(piece)
	}
	all.Wait()
	used, err := processorTime(syscall.RUSAGE_SELF)
	if err != nil {
		return err
	}
	return note(costs, workArea, used/time.Duration(processors))
}

// piece is the fixed piece of work: sorting and hashing, without garbage, whose collection would take another time
// in each run.
func piece() {
	numbers, bytes := make([]uint64, 1<<20), make([]byte, 8<<20)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
	for range 24 {
		for i := range numbers {
			numbers[i] = random.Uint64()
		}
		slices.Sort(numbers)
		for i, n := range numbers {
			binary.LittleEndian.PutUint64(bytes[8*i:], n)
		}
		for range 4 {
			sum := sha256.Sum256(bytes)
			copy(bytes, sum[:])
		}
	}
}

// report prints the cost of each area beside its budget.
func report(out io.Writer, costs, budgetsPath string) error {
	text, err := os.ReadFile(budgetsPath) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	var budgets struct{ Checks map[string]float64 }
	if err := yaml.Unmarshal(text, &budgets); err != nil {
		return fmt.Errorf("%s: %w", budgetsPath, err)
	}
	file, err := os.Open(costs) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	defer file.Close()
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	used, unit, err := read(file, root, slices.Collect(maps.Keys(budgets.Checks)))
	if err != nil {
		return fmt.Errorf("%s: %w", costs, err)
	}
	fmt.Fprintf(out, "%-36s %10s %8s %8s\n", "area", "processor", "cost", "budget")
	over := false
	for _, area := range slices.Sorted(maps.Keys(used)) {
		cost, budget := used[area]/unit, budgets.Checks[area]
		mark := ""
		if cost > budget*1.5 {
			over, mark = true, "  too much"
		}
		fmt.Fprintf(out, "%-36s %8.1f s %8.1f %8.1f%s\n", area, used[area], cost, budget, mark)
	}
	fmt.Fprintf(out, "The fixed piece of work took %.2f s of a processor.\n", unit)
	if over {
		return fmt.Errorf("an area costs half as much again as its budget in %s", budgetsPath)
	}
	return nil
}

// read reads the file of costs. It returns the seconds of each area, and those of the fixed piece of work.
func read(file io.Reader, root string, areas []string) (used map[string]float64, unit float64, err error) {
	used = make(map[string]float64)
	pieces, inTests := 0, 0.0
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var seconds float64
		number, area, _ := strings.Cut(lines.Text(), " ")
		if _, err := fmt.Sscan(number, &seconds); err != nil {
			return nil, 0, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		folder, isTest := strings.CutPrefix(area, testsOf)
		switch {
		case area == workArea:
			pieces++
			unit += seconds
			continue
		case isTest:
			inTests += seconds
			if area, err = areaOf(folder, root, areas); err != nil {
				return nil, 0, err
			}
		default: // what its tests have cost is noted before
			seconds, inTests = seconds-inTests, 0
		}
		used[area] += seconds
	}
	if pieces == 0 {
		return nil, 0, errors.New("the fixed piece of work was not done")
	}
	return used, unit / float64(pieces), lines.Err()
}

// areaOf returns the area of the tests of a folder.
func areaOf(folder, root string, areas []string) (area string, err error) {
	path, err := filepath.Rel(root, folder)
	if err != nil {
		return "", err
	}
	return longest(path, areas, "other tests"), nil
}

// longest returns the area with the longest name that a path begins with, or another one if there is none.
func longest(path string, areas []string, other string) (area string) {
	for _, a := range areas {
		if (path == a || strings.HasPrefix(path, a+"/")) && len(a) > len(area) {
			area = a
		}
	}
	return cmp.Or(area, other)
}
