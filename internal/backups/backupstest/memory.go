package backupstest

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"stepboard/internal/backups"
)

// Memory is a target in memory. Safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	objects map[string][]byte
}

// NewMemory returns an empty target.
func NewMemory() *Memory { return &Memory{objects: make(map[string][]byte)} }

// Clone returns a target with the same objects.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{objects: maps.Clone(m.objects)}
}

// Object returns the bytes of an object, nil if there is none.
func (m *Memory) Object(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects[name]
}

// Replace makes an object have other bytes, as nothing but a fault does.
func (m *Memory) Replace(name string, text []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[name] = text
}

// Create implements backups.Target.
func (m *Memory) Create(_ context.Context, name string, from io.ReadSeeker, size int64) error {
	text := make([]byte, size)
	_, err := from.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.ReadFull(from, text)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[name] != nil {
		return backups.ErrExists
	}
	m.objects[name] = text
	return nil
}

// Read implements backups.Target.
func (m *Memory) Read(_ context.Context, name string) (io.ReadCloser, error) {
	text := m.Object(name)
	if text == nil {
		return nil, backups.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

// List implements backups.Target.
func (m *Memory) List(_ context.Context, prefix string) (list []backups.Object, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, text := range m.objects {
		if strings.HasPrefix(name, prefix) {
			list = append(list, backups.Object{Name: name, Size: int64(len(text))})
		}
	}
	slices.SortFunc(list, func(a, b backups.Object) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Local implements backups.Target.
func (m *Memory) Local() bool { return false }

// Delete implements backups.Target.
func (m *Memory) Delete(_ context.Context, names ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		delete(m.objects, name)
	}
	return nil
}
