package archive

import (
	"fmt"
	"math/bits"

	"stepboard/models"
)

// row is one entry of an archived bucket.
type row struct {
	rank      int64
	user      models.RowID
	points    models.Points
	reachedAt models.Timestamp
}

// totals is a checksum of rows that does not depend on their order, so that two
// stores can be compared without sorting.
type totals struct {
	rows      int64
	pointsSum models.Points
	// hash is the exclusive or of the rows' hashes.
	hash int64
}

func (t *totals) add(r row) {
	t.rows++
	t.pointsSum += r.points
	t.hash ^= r.hash()
}

func (t totals) String() string {
	return fmt.Sprintf("%d rows, sum of points %d, hash %016x", t.rows, t.pointsSum, uint64(t.hash))
}

// hash returns the hash of a row that postgres.sum computes in SQL.
func (r row) hash() int64 {
	return hash64(int64(r.user), hash64(int64(r.points), hash64(int64(r.reachedAt), hash64(r.rank, 0))))
}

// hash64 returns what Postgres's hashint8extended returns: both halves of the
// value folded into 32 bits, then hashed by Bob Jenkins's lookup3 (2006) with a
// seed of 64 bits. Postgres can't change it, because it places rows in hash
// partitions by it.
func hash64(value, seed int64) int64 {
	low, high := uint32(value), uint32(uint64(value)>>32)
	if value < 0 {
		high = ^high
	}
	low ^= high

	a := uint32(0x9e3779b9) + 4 + 3923095 // 4 is the number of bytes hashed
	b, c := a, a
	if seed != 0 {
		a += uint32(uint64(seed) >> 32)
		b += uint32(seed)
		a, b, c = mix(a, b, c)
	}
	a += low
	b, c = final(a, b, c)
	return int64(uint64(b)<<32 | uint64(c))
}

// mix and final are those of lookup3. Behind each round the three numbers change their places.
func mix(a, b, c uint32) (uint32, uint32, uint32) {
	for _, by := range [...]int{4, 6, 8, 16, 19, 4} {
		a -= c
		a ^= bits.RotateLeft32(c, by)
		c += b
		a, b, c = b, c, a
	}
	return a, b, c
}

func final(a, b, c uint32) (uint32, uint32) {
	for _, by := range [...]int{14, 11, 25, 16, 4, 14, 24} {
		c ^= b
		c -= bits.RotateLeft32(b, by)
		a, b, c = b, c, a
	}
	return a, b // seven rounds later, b and c
}
