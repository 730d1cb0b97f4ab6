// A DTLS client of pion/dtls for the tests; pipe.h, in the folder above, says what it does with
// descriptor 0 and with its arguments. The suite has pion's name: TLS_PSK_WITH_AES_128_CCM_8.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/pion/dtls/v3"
)

const messageBytesMax = 16384

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func suiteOf(name string) dtls.CipherSuiteID {
	for id := range 0x10000 {
		if dtls.CipherSuiteName(dtls.CipherSuiteID(id)) == name {
			return dtls.CipherSuiteID(id)
		}
	}
	log.Fatalf("no such suite: %s", name)
	return 0
}

func configOf(arguments []string) *dtls.Config {
	config := &dtls.Config{
		CipherSuites:   []dtls.CipherSuiteID{suiteOf(arguments[1])},
		FlightInterval: 500 * time.Millisecond,
	}
	if arguments[2] == "psk" {
		key, err := hex.DecodeString(arguments[4])
		check(err)
		config.PSK = func([]byte) ([]byte, error) { return key, nil }
		config.PSKIdentityHint = []byte(arguments[3])
		return config
	}
	authority, err := os.ReadFile(arguments[3])
	check(err)
	own, err := tls.LoadX509KeyPair(arguments[4], arguments[5])
	check(err)
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AppendCertsFromPEM(authority)
	config.Certificates = []tls.Certificate{own}
	config.ServerName = "localhost"
	return config
}

func main() {
	messages, err := net.FileConn(os.Stdin)
	check(err)
	gateway, err := net.ResolveUDPAddr("udp4", "127.0.0.1:"+os.Args[1])
	check(err)
	connection, err := dtls.Dial("udp4", gateway, configOf(os.Args[1:]))
	check(err)
	waiting, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check(connection.HandshakeContext(waiting))
	_, err = messages.Write([]byte("open"))
	check(err)
	go func() {
		room := make([]byte, messageBytesMax)
		for {
			size, err := connection.Read(room)
			if err == io.EOF {
				return // this side or the gateway has ended the session
			}
			check(err)
			if _, err = messages.Write(room[:size]); err != nil {
				os.Exit(0)
			}
		}
	}()
	room := make([]byte, messageBytesMax)
	for {
		size, err := messages.Read(room)
		if err != nil || size == 0 {
			check(connection.Close())
			return
		}
		_, err = connection.Write(room[:size])
		check(err)
	}
}
