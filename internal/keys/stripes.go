package keys

import "strconv"

// Stripes is the number of parts that data is divided into which each server of a
// cluster recovers by itself. The keys of a stripe share a hash tag, so they are
// always on one server.
const Stripes = 128

// StripeOf returns the stripe of what the owner with this number has.
func StripeOf(owner int64) int { return int(owner % Stripes) }

// stripeTags are the hash tags of the stripes. Tag i lies in slots 128·i to
// 128·i + 127, so that servers have as many stripes as their share of the slots.
var stripeTags = [Stripes]int{
	14, 10, 100, 18, 113, 117, 346, 342, 131, 29, 25, 21, 3, 7, 122, 126,
	69, 171, 61, 65, 72, 76, 166, 162, 50, 54, 58, 140, 157, 153, 43, 47,
	15, 11, 101, 19, 112, 116, 347, 343, 130, 28, 24, 20, 2, 6, 123, 127,
	68, 170, 60, 64, 73, 77, 167, 163, 51, 55, 59, 141, 156, 152, 42, 46,
	16, 12, 102, 106, 111, 115, 119, 269, 133, 137, 27, 23, 1, 5, 9, 38,
	177, 173, 63, 67, 70, 74, 78, 160, 52, 56, 146, 142, 49, 151, 41, 45,
	17, 13, 103, 107, 110, 114, 118, 268, 132, 136, 26, 22, 0, 4, 8, 39,
	176, 172, 62, 66, 71, 75, 79, 161, 53, 57, 147, 143, 48, 150, 40, 44,
}

// stripeTag returns the hash tag of a stripe, without braces.
func stripeTag(stripe int) string { return strconv.Itoa(stripeTags[stripe]) }
