package outcomes

import "testing"

func TestAddresses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address         string
		public, private bool // permitted without and with private_network
	}{
		{"93.184.216.34:443", true, true},
		{"[2606:2800:220:1::1]:443", true, true},
		{"127.0.0.1:80", false, true},
		{"[::1]:80", false, true},
		{"10.1.2.3:80", false, true},
		{"172.16.0.1:80", false, true},
		{"192.168.1.1:80", false, true},
		{"[fd00::1]:80", false, true},
		{"100.64.1.1:80", false, true},
		{"[::ffff:10.0.0.1]:80", false, true},
		{"[64:ff9b::a00:1]:80", false, true},
		{"169.254.169.254:80", false, false},
		{"[fe80::1]:80", false, false},
		{"[::ffff:169.254.169.254]:80", false, false},
		{"0.0.0.0:80", false, false},
		{"224.0.0.1:80", false, false},
		{"nonsense", false, false},
	}
	for _, tt := range tests {
		if got := checkAddress(tt.address, false) == nil; got != tt.public {
			t.Errorf("%s: permitted without private_network: %v", tt.address, got)
		}
		if got := checkAddress(tt.address, true) == nil; got != tt.private {
			t.Errorf("%s: permitted with private_network: %v", tt.address, got)
		}
	}
}
