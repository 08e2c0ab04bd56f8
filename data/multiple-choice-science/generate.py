"""
Write samples.jsonl from the questions below, which were written by hand.

The right answer stands first here; in the samples the options are in mixed order, each letter being right equally often. Run: python generate.py
"""

import json
import random
from pathlib import Path

SYSTEM = "Choose the right answer. Answer with its letter alone: A, B, C or D."

QUESTIONS = {
    "physics": """
        What is the unit of electrical resistance? | ohm | volt | ampere | watt
        Which quantity is measured in newtons? | force | energy | power | pressure
        What happens to the volume of a fixed amount of gas when its pressure is doubled at constant temperature? | It halves | It doubles | It stays the same | It falls to a quarter
        Through which of these does sound not travel at all? | a vacuum | water | steel | air
        Which of these colours of visible light has the longest wavelength? | red | green | blue | violet
        How fast is a car that goes 150 km in 2 hours at constant speed? | 75 km/h | 300 km/h | 152 km/h | 50 km/h
        Which of these is a vector quantity? | velocity | mass | temperature | time
        What does a transformer change? | the voltage of an alternating current | the frequency of an alternating current | the voltage of a direct current from a battery | the resistance of a wire
        Two equal resistors of 10 ohms each are connected in parallel. What is their joint resistance? | 5 ohms | 20 ohms | 10 ohms | 100 ohms
        Which particle carries a negative electric charge? | the electron | the proton | the neutron | the alpha particle
        Why does a straw seem bent where it enters a glass of water? | Light is refracted at the surface | Water pushes the straw aside | Light is absorbed by the water | The straw shrinks in the cold
        What is the kinetic energy of a body of 2 kg that moves at 3 m/s? | 9 J | 6 J | 18 J | 3 J
        Which form of heat transfer warms the Earth through empty space? | radiation | conduction | convection | evaporation
        How fast is a stone after falling freely from rest for 3 s, at 10 m/s² and without air resistance? | 30 m/s | 10 m/s | 45 m/s | 90 m/s
        Which lens brings parallel rays of light together in one point? | a converging lens | a diverging lens | a flat pane of glass | a plane mirror
        What is absolute zero on the Celsius scale, rounded? | -273 °C | 0 °C | -100 °C | -373 °C
        Which of these is needed for a current to flow round a circuit? | a closed path | a switch that is open | a magnet | a lamp
        What happens to most metals when they are heated? | They expand | They contract | They keep their size | They lose their mass
        Like poles of two magnets are brought close to each other. What do they do? | They repel each other | They attract each other | They do nothing | They become non-magnetic
        What is the power of a device that turns 600 J of energy in 1 minute? | 10 W | 600 W | 36,000 W | 60 W""",
    "chemistry": """
        What is the chemical symbol of sodium? | Na | So | S | Sd
        How many protons has a carbon atom? | 6 | 12 | 4 | 14
        Which gas makes up most of the Earth's atmosphere? | nitrogen | oxygen | carbon dioxide | argon
        What is the pH of pure water at 25 °C? | 7 | 0 | 1 | 14
        Which of these is a noble gas? | neon | nitrogen | chlorine | hydrogen
        What forms when an acid neutralises an alkali? | a salt and water | a metal and oxygen | only a gas | two acids
        Which of these elements is a liquid at room temperature and normal pressure? | bromine | iodine | sulfur | helium
        What is the formula of table salt? | NaCl | KCl | NaOH | CaCO3
        Which kind of change is rusting? | a chemical change | a change of state | a physical mixing | a nuclear change
        What do isotopes of an element differ in? | the number of neutrons | the number of protons | their chemical symbol | their place in the periodic table
        Which of these is a mixture? | air | water | oxygen | carbon dioxide
        What is the change from a solid straight to a gas called? | sublimation | condensation | freezing | melting
        Which method separates sand from water most simply? | filtration | distillation of the sand | chromatography | electrolysis
        Which of these metals reacts violently with cold water? | potassium | copper | gold | silver
        Diamond and graphite are both forms of which element? | carbon | silicon | calcium | lead
        How many atoms are there in one molecule of H2SO4? | 7 | 3 | 6 | 8
        What does a catalyst do? | It speeds up a reaction without being used up | It stops a reaction | It is used up as a fuel | It makes more product than the reactants allow
        Which gas turns limewater milky? | carbon dioxide | oxygen | hydrogen | nitrogen
        Which charge has the ion of magnesium in magnesium oxide, MgO? | 2+ | 1+ | 2- | 1-
        In the periodic table, what do the elements of one group share? | the number of outer electrons, as a rule | the number of neutrons | the mass of their atoms | the state at room temperature""",
    "biology": """
        Which part of a plant cell carries out photosynthesis? | the chloroplast | the nucleus | the cell wall | the vacuole
        What carries oxygen in human blood? | haemoglobin in red blood cells | white blood cells | platelets | insulin
        How many chambers has the heart of a mammal? | four | two | three | five
        Which of these animals is a mammal? | the dolphin | the shark | the penguin | the salmon
        What do plants take in from the air for photosynthesis? | carbon dioxide | nitrogen | hydrogen | methane
        Which organ makes urine by filtering the blood? | the kidney | the liver | the bladder | the lung
        What is the usual number of chromosomes in a human body cell? | 46 | 23 | 48 | 92
        Which of these is an amphibian? | the frog | the lizard | the tortoise | the snake
        Which molecule carries the genetic information in human cells? | DNA | glucose | starch | cellulose
        What do we call an animal that eats only plants? | a herbivore | a carnivore | an omnivore | a decomposer
        Which hormone lowers the level of sugar in the blood? | insulin | adrenaline | glucagon | oestrogen
        Where are most nutrients taken up into human blood? | in the small intestine | in the stomach | in the mouth | in the oesophagus
        Which part of a flower makes pollen? | the anther | the stigma | the petal | the ovary
        Which of these is caused by a virus? | measles | tuberculosis | scurvy | tetanus
        How many legs has an insect? | six | four | eight | ten
        What is the role of most white blood cells? | defence against germs | carrying oxygen | clotting of the blood | digesting food
        In a food chain of grass, rabbit and fox, which is the producer? | the grass | the rabbit | the fox | the rabbit and the fox together
        Which structure controls what enters and leaves an animal cell? | the cell membrane | the nucleus | the mitochondrion | the ribosome
        Which of these is a fungus? | yeast | moss | an alga | a fern
        Which vitamin is made in human skin under sunlight? | vitamin D | vitamin C | vitamin A | vitamin K""",
    "earth-and-space": """
        Which planet is closest to the Sun? | Mercury | Venus | Mars | Earth
        What causes the seasons on Earth? | the tilt of its axis | its changing distance from the Sun | the phases of the Moon | sunspots
        How long does the Earth take to go once around the Sun? | about a year | about a day | about a month | about ten years
        Which layer of the Earth is liquid and made mostly of iron and nickel? | the outer core | the crust | the mantle | the inner core
        What is molten rock called once it has reached the surface? | lava | magma | granite | ash
        Which rock forms from layers of sand that are pressed together? | sandstone | basalt | marble | granite
        What is the main cause of the tides? | the pull of the Moon | the wind | the warmth of the Sun | earthquakes
        Which planet has the largest and brightest rings? | Saturn | Mars | Venus | Mercury
        What stands between the Sun and the Earth during a solar eclipse? | the Moon | Venus | Mars | a comet
        Which instrument records earthquakes? | a seismograph | a barometer | a hygrometer | an anemometer
        Which gas in the upper atmosphere shields us from much of the Sun's ultraviolet light? | ozone | helium | methane | neon
        What is the Sun? | a star | a planet | a moon | a comet
        Which of these scientists drew up the theory of continental drift in 1912? | Alfred Wegener | Charles Darwin | Isaac Newton | Marie Curie
        What does a barometer measure? | air pressure | humidity | wind speed | rainfall
        Into which rock does limestone change under great heat and pressure? | marble | slate | sandstone | obsidian
        Which process turns water vapour into clouds? | condensation | evaporation | sublimation | erosion
        Between the orbits of which two planets does the main asteroid belt lie? | Mars and Jupiter | Earth and Mars | Jupiter and Saturn | Venus and Earth
        Which planet turns on an axis that lies almost in the plane of its orbit? | Uranus | Earth | Jupiter | Mars
        What is the name of our galaxy? | the Milky Way | Andromeda | the Solar System | Orion
        On the Mohs scale, which mineral is the hardest? | diamond | quartz | talc | gypsum""",
}


def rows() -> list[dict[str, object]]:
    rng = random.Random(11)
    made: list[dict[str, object]] = []
    for field, table in QUESTIONS.items():
        lines = [line.strip().split(" | ") for line in table.strip().splitlines()]
        places = [index % 4 for index in range(len(lines))]  # where the right answer goes: each place equally often
        rng.shuffle(places)
        for (question, right, *wrong), place in zip(lines, places, strict=True):
            rng.shuffle(wrong)
            options = [*wrong[:place], right, *wrong[place:]]
            told = "\n".join(f"{letter}) {option}" for letter, option in zip("ABCD", options, strict=True))
            messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{question}\n{told}"}]
            made.append({"input": messages, "ideal": "ABCD"[place], "category": field})
    return made


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(__file__).with_name("samples.jsonl").write_bytes(text.encode("utf-8"))
