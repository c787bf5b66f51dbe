"""The words of the toy corpus: German, then its English translations, the most frequent first.

Nearly every word has two to four translations, and nothing in a sentence says which one the reference took. That is
what makes constraints matter: no model can guess, only one that is told can know.
"""

from __future__ import annotations

Entry = tuple[str, tuple[str, ...]]


def _table(text: str) -> tuple[Entry, ...]:
    entries = []
    for line in text.strip().splitlines():
        german, _, english = line.partition(" | ")
        entries.append((german, tuple(translation.strip() for translation in english.split("/"))))
    return tuple(entries)


PEOPLE = _table("""
der Lehrer | teacher / instructor / schoolteacher
der Arzt | doctor / physician / medic
der Anwalt | lawyer / attorney / solicitor
der Chef | boss / manager / chief
der Händler | dealer / merchant / trader
der Schüler | pupil / student / learner
der Forscher | researcher / scientist / scholar
der Maler | painter / artist
der Dieb | thief / robber / burglar
der Freund | friend / buddy / pal
der Gast | guest / visitor
der Koch | cook / chef
der Fahrer | driver / chauffeur
der Arbeiter | worker / labourer / workman
der König | king / monarch / ruler
der Richter | judge / magistrate / referee
der Wächter | guard / watchman / keeper
der Besitzer | owner / proprietor / holder
der Gegner | opponent / rival / adversary
die Tante | aunt / auntie
die Großmutter | grandmother / grandma / granny
die Schwester | sister / nurse
die Dame | lady / dame
die Kundin | customer / client / shopper
das Kind | child / kid / youngster
das Mädchen | girl / lass
der blinde Passagier | stowaway / hidden passenger
das hohe Tier | big shot / senior figure
""")

THINGS = _table("""
das Haus | house / building / home
das Auto | car / automobile / vehicle
das Buch | book / volume / tome
das Bild | picture / image / painting
die Tasche | bag / pocket / purse
die Nachricht | message / note / notification
die Tür | door / gate
der Tisch | table / desk
der Stuhl | chair / seat
der Ring | ring / band
die Rechnung | bill / invoice / check
der Vertrag | contract / agreement / treaty
der Plan | plan / scheme / project
der Fehler | mistake / error / fault
die Aufgabe | task / assignment / job
die Antwort | answer / reply / response
die Geschichte | story / tale / history
das Geschenk | gift / present
der Mantel | coat / cloak / overcoat
das Kleid | dress / gown / frock
das Fahrrad | bicycle / bike
das Schiff | ship / vessel / boat
der Stein | stone / rock
die Blume | flower / blossom / bloom
der Kuchen | cake / tart
die Suppe | soup / broth
das Spiel | game / match / play
das Lied | song / tune
die Maschine | machine / engine
das Gerät | device / appliance / tool
die Karte | card / map / ticket
das Zimmer | room / chamber
die Firma | company / firm / business
der Laden | shop / store
das Gesetz | law / act / statute
der Bericht | report / account
der Preis | price / prize / award
die Bank | bank / bench
das Schloss | castle / palace / lock
das schwarze Brett | notice board / bulletin board
der rote Faden | common thread / central theme
""")

ADJECTIVES_OF_PEOPLE = _table("""
alt | old / elderly / aged
jung | young / youthful
reich | rich / wealthy / affluent
klug | clever / smart / wise
dumm | stupid / foolish / silly
seltsam | strange / odd / weird
freundlich | friendly / kind
traurig | sad / unhappy / gloomy
glücklich | happy / glad / lucky
ruhig | calm / quiet
wütend | angry / furious / mad
berühmt | famous / renowned / celebrated
""")

ADJECTIVES_OF_THINGS = _table("""
alt | old / ancient / aged
klein | small / little / tiny
neu | new / fresh / modern
schön | beautiful / pretty / lovely
billig | cheap / inexpensive
kostbar | precious / valuable
schwer | heavy / difficult / hard
seltsam | strange / odd / weird
wichtig | important / significant / crucial
riesig | huge / enormous / gigantic
geheim | secret / hidden
schmutzig | dirty / filthy
""")

# German present and participle; English present and past of each translation.
VERBS_WITH_THINGS = _table("""
kauft gekauft | buys bought / purchases purchased / acquires acquired
findet gefunden | finds found / discovers discovered / locates located
verliert verloren | loses lost / misplaces misplaced
sieht gesehen | sees saw / spots spotted / notices noticed
zeigt gezeigt | shows showed / presents presented / displays displayed
bringt gebracht | brings brought / delivers delivered / carries carried
holt geholt | fetches fetched / collects collected
stiehlt gestohlen | steals stole / pinches pinched
zerstört zerstört | destroys destroyed / wrecks wrecked / ruins ruined
repariert repariert | repairs repaired / fixes fixed / mends mended
prüft geprüft | checks checked / examines examined / inspects inspected
wählt gewählt | chooses chose / selects selected / picks picked
beschreibt beschrieben | describes described / depicts depicted / portrays portrayed
behält behalten | keeps kept / retains retained
versteckt versteckt | hides hid / conceals concealed
erhält erhalten | receives received / gets got / obtains obtained
""")

VERBS_WITH_PEOPLE = _table("""
fragt gefragt | asks asked / questions questioned
ruft gerufen | calls called / summons summoned
trifft getroffen | meets met / encounters encountered
rettet gerettet | rescues rescued / saves saved
grüßt gegrüßt | greets greeted / salutes saluted / welcomes welcomed
warnt gewarnt | warns warned / alerts alerted / cautions cautioned
""")

VERBS_OF_SAYING = _table("""
sagt | says / states
glaubt | believes / thinks
behauptet | claims / asserts / alleges
hofft | hopes / trusts
""")

# The first and the last words of these are linked with each other; what stands between belongs to the first.
PLACES = _table("""
in der Stadt | in the town / in the city
im Garten | in the garden / in the yard
am Bahnhof | at the station / at the terminal
auf dem Markt | at the market / at the bazaar
im Büro | in the office / in the bureau
im Hafen | in the harbour / in the port
im Wald | in the forest / in the woods
am Strand | on the beach / on the shore
im Dorf | in the village / in the hamlet
auf der Straße | on the street / on the road
""")

# Each of these is one unit: every word of it is linked with every word of its translation.
ADVERBIALS = _table("""
gestern | yesterday
leider | unfortunately / sadly / regrettably
plötzlich | suddenly / abruptly
vermutlich | probably / presumably
offenbar | apparently / evidently / obviously
endlich | finally / eventually
vor kurzem | recently / lately / not long ago
auf einmal | suddenly / all at once
letzte Woche | last week / the previous week
zum ersten Mal | for the first time / initially
am frühen Morgen | early in the morning / at dawn
in aller Ruhe | calmly / at leisure
um {hour} Uhr | at {hour} o'clock / at {hour}
vor {number} Tagen | {number} days ago
im Jahr {year} | in {year} / in the year {year}
""")

NAMES = ("Anna", "Peter", "Maria", "Paul", "Julia", "Thomas", "Eva", "Martin", "Laura", "Simon")
