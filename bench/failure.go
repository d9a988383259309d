package main

import "fmt"

// failure is an error that ends the run. A measurement that fails is of no use, and neither is the rest
// of its part: so check and must panic with one, bench returns it, and the parts read as their steps.
type failure struct{ error }

// check ends the run if there is an error. It must not be called in a goroutine, unless below caught.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns a value, or ends the run if there is an error.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// caught does work and returns the error by which it ends the run; nil if it does not.
func caught(work func()) (err error) {
	defer func() {
		switch end := recover().(type) {
		case nil:
		case failure:
			err = end.error
		default:
			panic(end)
		}
	}()
	work()
	return nil
}

// named does work. An error by which it ends the run gets a name.
func named(name string, work func()) {
	if err := caught(work); err != nil {
		check(fmt.Errorf("%s: %w", name, err))
	}
}
