//go:build e2e

package e2e

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

const (
	allProtocols = 0x0003 // ETH_P_ALL of <linux/if_ether.h>
	frameBytes   = 256 << 10
	ethernet     = 14
	protocolTCP  = 6
	wordBytes    = 4
)

// beWiretap is the wiretap's main: it appends what TCP carries over the delivery port of the network it is in to the file, in both
// directions and in the order of the packets.
func beWiretap(file string) int {
	if err := listenIn(file); err != nil {
		fmt.Fprintln(os.Stderr, "wiretap:", err)
		return 1
	}
	return 0
}

func listenIn(file string) error {
	port, err := strconv.ParseUint(deliveryPort, 10, 16)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) // #nosec G304 -- the test's own
	if err != nil {
		return err
	}
	network := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, allProtocols))
	socket, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, int(network))
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	if err := os.WriteFile(file+".listening", nil, 0o600); err != nil {
		return err
	}
	frame := make([]byte, frameBytes)
	for {
		n, _, err := syscall.Recvfrom(socket, frame, 0)
		if err != nil {
			return fmt.Errorf("read a packet: %w", err)
		}
		if _, err := out.Write(payload(frame[:n], uint16(port))); err != nil {
			return err
		}
	}
}

// payload is what an Ethernet frame carries over TCP (IPv4: RFC 791, TCP: RFC 9293) to or from the port; nothing when it is another.
func payload(frame []byte, port uint16) []byte {
	if len(frame) < ethernet || binary.BigEndian.Uint16(frame[12:]) != syscall.ETH_P_IP {
		return nil
	}
	packet := frame[ethernet:]
	if len(packet) < 20 || packet[9] != protocolTCP {
		return nil
	}
	if total := int(binary.BigEndian.Uint16(packet[2:])); total > 0 && total < len(packet) { // a short frame is padded
		packet = packet[:total]
	}
	header := int(packet[0]&0x0f) * wordBytes
	if len(packet) < header+20 {
		return nil
	}
	segment := packet[header:]
	if binary.BigEndian.Uint16(segment) != port && binary.BigEndian.Uint16(segment[2:]) != port {
		return nil
	}
	if offset := int(segment[12]>>4) * wordBytes; offset <= len(segment) {
		return segment[offset:]
	}
	return nil
}
