// Package crash_test kills processes of the service and of its stores, and
// checks that every promise still holds afterwards.
package crash_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"stepboard/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		testenv.RemoveBinary()
		os.Exit(status)
	}))
}
