package testenv

import (
	"hash/fnv"
	"os"
	"strconv"
	"testing"
)

// formsVariable says how many forms of their promise tests try that have many, such as a process that is killed at
// each of its steps, or the seeds of a simulation:
//
//   - Unset, they try a few, always the same, which prove the promise, as in make test.
//   - A number adds a share of the others, another one for each number. It is the day's in .ci/run.
//   - "all" is each, as in make soak.
const formsVariable = "TEST_FORMS"

// shares is the number of shares that the other forms are divided into.
const shares = 10

// AllForms reports whether tests try all forms.
func AllForms() bool { return os.Getenv(formsVariable) == "all" }

// Round returns the number of the share of the other forms that tests try; ok is false if they try only a few forms,
// or all.
func Round(t testing.TB) (number int, ok bool) {
	t.Helper()
	text := os.Getenv(formsVariable)
	if text == "" || text == "all" {
		return 0, false
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", formsVariable, err)
	}
	return number, true
}

// Forms returns those of a test's forms that it tries, in their order. The few that it always tries divide the list
// evenly. If there are none, the test is skipped.
func Forms[T any](t testing.TB, few int, all []T) []T {
	t.Helper()
	chosen := choose(t, few, all)
	if len(chosen) == 0 && len(all) > 0 {
		t.Skipf("tried in one of %d rounds: see %s", shares, formsVariable)
	}
	return chosen
}

// OtherForms returns those of a test's forms that it tries beside others that it always tries.
func OtherForms[T any](t testing.TB, all []T) []T {
	t.Helper()
	return choose(t, 0, all)
}

// Sometimes skips a test unless it has its turn: it tries another test's promise in another form.
func Sometimes(t testing.TB) {
	t.Helper()
	Forms(t, 0, []string{t.Name()})
}

// choose returns a few of the forms, and those whose turn it is.
func choose[T any](t testing.TB, few int, all []T) (chosen []T) {
	t.Helper()
	few = min(few, len(all))
	if AllForms() || few == len(all) {
		return all
	}
	round, more := Round(t)
	// Tests with few forms don't all have their turn in the same round.
	name := fnv.New32()
	_, _ = name.Write([]byte(t.Name()))
	begin := int(name.Sum32() % shares)
	taken := 0 // of the few
	for i, form := range all {
		always := taken < few && i == (2*taken+1)*len(all)/(2*few)
		if always {
			taken++
		}
		if always || more && (begin+i+round)%shares == 0 {
			chosen = append(chosen, form)
		}
	}
	return chosen
}

// Rounds returns how often a test repeats itself: in make soak many times.
func Rounds(few, many int) int {
	if AllForms() {
		return many
	}
	return few
}
