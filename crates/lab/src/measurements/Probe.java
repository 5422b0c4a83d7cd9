// Round trips as measurement apps take them in a runtime (delay measurement paper, section 5.1):
//   java Probe rst HOST 7 COUNT INTERVAL_MS CLOCK CONNECTION     InetAddress.isReachable, Inet ping
//   java Probe syn HOST PORT COUNT INTERVAL_MS CLOCK CONNECTION  HttpURLConnection.connect
//   java Probe http HOST PORT COUNT INTERVAL_MS CLOCK CONNECTION HttpURLConnection, HTTP ping
//   java Probe exec PROGRAM ARGUMENT...            a native program, External ping (section 6.1)
// CLOCK is nano (System.nanoTime), millis (System.currentTimeMillis) or wall (Instant.now: Unix).
// CONNECTION is kept (one for all HTTP requests) or new (one for each).
// Prints "OUT_NS IN_NS" for each probe, "lost" for a lost one; exec: what the program prints.

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.URL;
import java.time.Instant;
import java.util.Arrays;

public final class Probe {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("exec")) {
            System.exit(exec(Arrays.copyOfRange(arguments, 1, arguments.length)));
        }
        String host = arguments[1];
        int port = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        long intervalNs = Long.parseLong(arguments[4]) * 1_000_000L;
        String clock = arguments[5];
        System.setProperty("http.keepAlive", String.valueOf(arguments[6].equals("kept")));
        InetAddress address = InetAddress.getByName(host);
        URL url = new URL("http", host, port, "/");
        byte[] buffer = new byte[1024];
        StringBuilder told = new StringBuilder();
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            long wait = start + i * intervalNs - System.nanoTime();
            if (wait > 0) {
                Thread.sleep(wait / 1_000_000L, (int) (wait % 1_000_000L));
            }
            long out;
            boolean answered;
            long in = 0;
            if (arguments[0].equals("rst")) {
                out = now(clock);
                answered = address.isReachable(2000);
            } else if (arguments[0].equals("syn")) {
                HttpURLConnection connection = (HttpURLConnection) url.openConnection();
                out = now(clock);
                connection.connect();
                answered = true;
                in = now(clock);
                // So that the next one is a connection of its own.
                connection.disconnect();
            } else {
                HttpURLConnection connection = (HttpURLConnection) url.openConnection();
                // The handshake is not counted (delay measurement paper, section 5.1).
                connection.connect();
                out = now(clock);
                try (InputStream body = connection.getInputStream()) {
                    while (body.read(buffer) >= 0) {
                        // All of it, so that the connection can be taken again.
                    }
                }
                answered = connection.getResponseCode() == 200;
            }
            if (in == 0) {
                in = now(clock);
            }
            told.append(answered ? out + " " + in : "lost").append('\n');
        }
        System.out.print(told);
    }

    private static long now(String clock) {
        switch (clock) {
            case "millis":
                return System.currentTimeMillis() * 1_000_000L;
            case "wall":
                Instant now = Instant.now();
                return now.getEpochSecond() * 1_000_000_000L + now.getNano();
            default:
                return System.nanoTime();
        }
    }

    private static int exec(String[] command) throws Exception {
        Process process =
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getInputStream()))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(line);
            }
        }
        return process.waitFor();
    }
}
